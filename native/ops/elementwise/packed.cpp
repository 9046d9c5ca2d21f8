#include "ops/elementwise/packed.h"

#include "base/ceil_div.h"
#include "core/context.h"
#include "kernels/args/elementwise.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/map.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"

namespace gpk::ops::elementwise {
namespace {

constexpr auto kPackedKernel = static_cast<std::uint8_t>(ElementwiseKernel::kPacked);

jit::KernelSpec spec_of(bool pack) {
  jit::KernelSpec spec;
  spec.kernel = kPackedKernel;
  spec.variant = pack;
  spec.file = "elementwise/packed.cuh";
  spec.op = "copy";
  spec.expression = pack ? "gpk::pack4" : "gpk::unpack4";
  return spec;
}

kernels::PackedKind kind_of(DType dtype) {
  if (dtype == DType::kFloat4E2M1FN) return kernels::PackedKind::kFloat;
  return dtype == DType::kUInt4 ? kernels::PackedKind::kUnsigned : kernels::PackedKind::kSigned;
}

// The bytes of a packed array, which NumPy can view.
Array bytes_of(const Array& packed) {
  return {Dims{static_cast<std::int64_t>(packed.nbytes())}, Dims{1}, DType::kUInt8, packed.buffer(),
          packed.offset_elems() / 2};
}

void launch(bool pack, const Array& in, const Array& out, const Array& other, DType packed) {
  const Kernel& k =
      kernel(Context::get(in.device().index), {Family::elementwise, kPackedKernel, pack},
             [&] { return spec_of(pack); });
  cu::DevicePtr from = in.device_ptr();
  cu::DevicePtr to = out.device_ptr();
  auto dtype = static_cast<std::uint8_t>(other.dtype());
  kernels::PackedKind kind = kind_of(packed);
  std::int64_t n = other.size();
  void* params[] = {&from, &to, &dtype, &kind, &n};
  submit(k, grid_1d(ceil_div(n, 2), 256, 256), {&in, &out}, params);
}

}  // namespace

void unpack4(const Array& dst, const Array& packed) {
  if (dst.device().is_cuda()) {
    launch(false, packed, dst, dst, packed.dtype());
  } else {
    run_on_cpu({"unpack4", {bytes_of(packed), packed.dtype()}, {dst}});
  }
}

void pack4(const Array& packed, const Array& src) {
  if (src.device().is_cuda()) {
    launch(true, src, packed, src, packed.dtype());
  } else {
    run_on_cpu({"pack4", {src, packed.dtype()}, {bytes_of(packed)}});
  }
}

void enumerate_packed(std::vector<jit::KernelSpec>& specs) {
  specs.push_back(spec_of(false));
  specs.push_back(spec_of(true));
}

}  // namespace gpk::ops::elementwise
