#include "ops/sorting/gather.h"

#include "kernels/args/sorting.h"
#include "ops/device_address.h"
#include "ops/sorting/kernels.h"
#include "ops/sorting/row_sort.h"

namespace gpk::ops::sorting {
void gather_rows(const RowGather& gather) {
  if (gather.rows * gather.count == 0) return;
  kernels::GatherArgs args{};
  args.in = address(gather.data);
  args.index = address(gather.index);
  args.out = address(gather.out);
  args.index_out = address(gather.index_out);
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

}  // namespace gpk::ops::sorting
