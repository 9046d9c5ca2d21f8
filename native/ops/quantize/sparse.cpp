#include "ops/quantize/sparse.h"

#include "base/text.h"
#include "core/context.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using kernels::kQuantizeThreads;
using kernels::SparseArgs;

struct SparseVariant {
  DType weights;
  std::optional<DType> out;  // nullopt: sparsify
};

std::uint8_t sparse_kernel_id(const SparseVariant& v) { return kSparsifyKernel + (v.out ? 1 : 0); }

std::uint64_t sparse_bits(const SparseVariant& v) {
  return plan::KeyBuilder()
      .field("weights", v.weights, plan::kDTypeBits)
      .field("out", v.out.value_or(v.weights), plan::kDTypeBits)
      .key();
}

jit::KernelSpec sparse_spec_of(const SparseVariant& v) {
  jit::KernelSpec spec;
  spec.file = "quantize/sparse.cuh";
  spec.op = v.out ? "dequantize" : "quantize";
  spec.kernel = sparse_kernel_id(v);
  spec.variant = sparse_bits(v);
  const char* const type = info(v.weights).cuda_name;
  spec.expression = v.out ? cat("gpk::expand_sparse<", type, ", ", info(*v.out).cuda_name, ">")
                          : cat("gpk::sparsify<", type, ">");
  return spec;
}

void launch_sparse(const SparseVariant& variant, SparseArgs args, const PackedWeight& packed,
                   const Array& dense) {
  args.values = address(packed.values);
  args.metadata = address(*packed.metadata);
  args.n = packed.n();
  args.k = packed.k();
  args.values_row = packed.values.shape()[1];
  args.k_blocks = packed.metadata->shape()[1];
  const Kernel& code = kernel(Context::get(dense.device().index),
                              {Family::quantize, sparse_kernel_id(variant), sparse_bits(variant)},
                              [&] { return sparse_spec_of(variant); });
  void* params[] = {&args};
  submit(code, grid_1d(packed.metadata->size(), kQuantizeThreads, kQuantizeThreads),
         {&dense, &packed.values, &*packed.metadata}, params);
}

}  // namespace

void sparsify(const Array& w, const PackedWeight& packed) {
  if (!w.device().is_cuda()) {
    run_on_cpu({"sparsify", {w}, {packed.values, *packed.metadata}});
    return;
  }
  SparseArgs args{};
  args.w = address(w);
  args.w_row = w.strides()[0];
  launch_sparse({w.dtype(), std::nullopt}, args, packed, w);
}

void expand_sparse(const PackedWeight& packed, const Array& out) {
  if (!out.device().is_cuda()) {
    run_on_cpu({"expand_sparse", {packed.values, *packed.metadata}, {out}});
    return;
  }
  SparseArgs args{};
  args.out = address(out);
  launch_sparse({packed.dtype, out.dtype()}, args, packed, out);
}

void enumerate_sparse(std::vector<jit::KernelSpec>& specs) {
  for (const DType weights : {DType::kBFloat16, DType::kFloat16}) {
    specs.push_back(sparse_spec_of({weights, std::nullopt}));
    for (const DType out : {DType::kBFloat16, DType::kFloat16, DType::kFloat32})
      specs.push_back(sparse_spec_of({weights, out}));
  }
}

}  // namespace gpk::ops
