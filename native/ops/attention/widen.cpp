// 8-bit caches for kernels that multiply 16 bits.
#include <algorithm>
#include <limits>

#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/attention/launch.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"
#include "plan/machine.h"

namespace gpk::ops::attention {
namespace {

constexpr const char* kOp = "attention";
constexpr std::int64_t kVector = 8;

std::uint64_t key_of(DType dtype, std::int64_t vector) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("vector", vector, 4)
      .key();
}

jit::KernelSpec spec_of(DType dtype, std::int64_t vector) {
  jit::KernelSpec spec;
  spec.file = "attention/widen_pages.cuh";
  spec.op = kOp;
  spec.kernel = kWidenPages;
  spec.variant = key_of(dtype, vector);
  spec.expression =
      cat("gpk::widen_pages_kernel<", info(dtype).cuda_name, ", gpk::float8_e4m3fn, ", vector, ">");
  return spec;
}

bool takes_vectors(const Array& pages) {
  bool takes = reinterpret_cast<std::uintptr_t>(pages.data()) % kVector == 0 &&
               pages.shape()[3] % kVector == 0;
  for (int i = 0; i < 3; ++i)
    takes = takes && (pages.shape()[i] == 1 || pages.strides()[i] % kVector == 0);
  return takes;
}

// Enough blocks for all multiprocessors, whatever the table's room.
LaunchConfig grid_of(const AttentionDesc& d, std::int64_t blocks_row, int sms) {
  const std::int64_t steps = std::clamp<std::int64_t>(
      ceil_div(std::int64_t{8} * sms, 2 * d.kv_heads * d.batch), 1, blocks_row);
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(2 * steps);
  config.grid[1] = static_cast<unsigned>(d.kv_heads);
  config.grid[2] = static_cast<unsigned>(d.batch);
  config.block[0] = 256;
  return config;
}

// Room for all entries of the tables, or for the whole cache and a page of zeros if that is less: a
// captured launch may find any lengths.
void widen_pages(AttentionCall& call, const AttentionPlan& next) {
  const DType dtype = call.desc.dtype;
  const Device device = call.q.device();
  const std::int64_t num_pages =
      std::min<std::int64_t>(call.k.shape()[0], std::numeric_limits<std::int32_t>::max());
  const bool moves = call.blocks->size() < num_pages;
  const auto wide = [&](const Array& from) {
    Dims shape = from.shape();
    shape[0] = moves ? call.blocks->size() : num_pages + 1;
    return Array::empty(shape, dtype, device, kOp);
  };
  const Array k = wide(call.k);
  const Array v = wide(call.v);
  const Array blocks = Array::empty(call.blocks->shape(), DType::kInt32, device, kOp);
  kernels::AttentionArgs args = args_of(call);
  kernels::WidePages pages{address(k),
                           address(v),
                           address(blocks),
                           static_cast<int>(num_pages),
                           moves ? -1 : static_cast<int>(num_pages),
                           first_key_multiple(next),
                           0};
  const std::int64_t vector = takes_vectors(call.k) && takes_vectors(call.v) ? kVector : 1;
  Context& context = Context::get(device.index);
  const Kernel& code = kernel(context, {Family::attention, kWidenPages, key_of(dtype, vector)},
                              [&] { return spec_of(dtype, vector); });
  void* params[] = {&args, &pages};
  submit(code, grid_of(call.desc, call.blocks->shape()[1], plan::machine_of(context).sms),
         {&call.k, &call.v, &*call.lengths, &*call.blocks,
          call.q_starts ? &*call.q_starts : nullptr, &k, &v, &blocks},
         params);
  call.k = k;
  call.v = v;
  call.blocks = blocks;
}

}  // namespace

void widen_cache(AttentionCall& call, const AttentionPlan& next) {
  if (call.desc.paged) {
    widen_pages(call, next);
  } else {
    call.k = cast(call.k, call.desc.dtype, kOp);
    call.v = cast(call.v, call.desc.dtype, kOp);
  }
  call.desc.kv_dtype = call.desc.dtype;
}

void enumerate_widening(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16})
    for (const std::int64_t vector : {std::int64_t{1}, kVector})
      specs.push_back(spec_of(dtype, vector));
}

}  // namespace gpk::ops::attention
