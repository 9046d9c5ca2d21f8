#include "ops/sorting/gather.h"

#include "ops/sorting/kernels.h"
#include "ops/sorting/row_sort.h"

namespace gpk::ops {
namespace {

// As in gather.cuh.
struct GatherArgs {
  cu::DevicePtr in, index, out, index_out;
  std::int64_t rows, len, index_len, count;
};

}  // namespace

void gather_rows(const RowGather& gather) {
  if (gather.rows * gather.count == 0) return;
  GatherArgs args{};
  args.in = gather.data.device_ptr();
  args.index = gather.index.device_ptr();
  args.out = gather.out ? gather.out->device_ptr() : 0;
  args.index_out = gather.index_out ? gather.index_out->device_ptr() : 0;
  args.rows = gather.rows;
  args.len = gather.len;
  args.index_len = gather.index_len;
  args.count = gather.count;
  void* params[] = {&args};
  const int wide = gather.index.dtype() == DType::kInt64 ? 1 : 0;
  submit_loop(sorting_kernel(gather.data.device(), SortingKernel::kGather,
                             {width_bits(gather.data.dtype()), wide, false}),
              gather.rows * gather.count, 256,
              {&gather.data, &gather.index, gather.out ? &*gather.out : nullptr,
               gather.index_out ? &*gather.index_out : nullptr},
              params);
}

}  // namespace gpk::ops
