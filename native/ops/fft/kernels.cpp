#include "ops/fft/kernels.h"

#include "base/text.h"
#include "ops/fft/shape.h"
#include "ops/op.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace fft {
namespace {

const char* name(FftSide side) {
  return side == FftSide::kRow ? "gpk::kernels::FftSide::kRow" : "gpk::kernels::FftSide::kColumn";
}
const char* name(FftFetch fetch) {
  switch (fetch) {
    case FftFetch::kReal: return "gpk::kernels::FftFetch::kReal";
    case FftFetch::kPacked: return "gpk::kernels::FftFetch::kPacked";
    case FftFetch::kHalf: return "gpk::kernels::FftFetch::kHalf";
    default: return "gpk::kernels::FftFetch::kComplex";
  }
}
const char* name(FftPut put) {
  switch (put) {
    case FftPut::kPacked: return "gpk::kernels::FftPut::kPacked";
    case FftPut::kHalf: return "gpk::kernels::FftPut::kHalf";
    default: return "gpk::kernels::FftPut::kComplex";
  }
}

std::string block_expression(bool wide, const FftPass& pass) {
  const FftShape& shape = pass.shape;
  std::string text =
      cat("gpk::fft_block<", wide ? "double" : "float", ", ", shape.threads_each, ", ", shape.group,
          ", ", shape.pitch, ", ", name(pass.in), ", ", name(pass.out), ", ", name(pass.fetch),
          ", ", name(pass.put), ", ", pass.twiddle ? "true" : "false");
  for (int s = 0; s < shape.num_stages; ++s)
    text = cat(text, ", ", shape.radices[static_cast<std::size_t>(s)]);
  return cat(text, ">");
}

}  // namespace

std::uint64_t pack(FftKernel which, bool wide, const FftPass& pass) {
  plan::KeyBuilder key;
  key.field("wide", wide, 1);
  if (which == FftKernel::kBlock)
    key.field("n", pass.shape.n, 15)
        .field("in", pass.in, 1)
        .field("out", pass.out, 1)
        .field("fetch", pass.fetch, 3)
        .field("put", pass.put, 2)
        .field("twiddle", pass.twiddle, 1);
  return key.key();
}

jit::KernelSpec make_spec(FftKernel which, bool wide, const FftPass& pass) {
  jit::KernelSpec spec;
  spec.op = "fft_execute";
  spec.kernel = static_cast<std::uint8_t>(which);
  spec.variant = pack(which, wide, pass);
  switch (which) {
    case FftKernel::kBlock:
      spec.file = "fft/block.cuh";
      spec.expression = block_expression(wide, pass);
      spec.bundled = false;
      break;
    case FftKernel::kGeneral:
      spec.file = "fft/general.cuh";
      spec.expression = cat("gpk::fft_general<", wide ? "double" : "float", ">");
      break;
    case FftKernel::kMerge:
      spec.file = "fft/merge.cuh";
      spec.expression = cat("gpk::fft_merge<", wide ? "double" : "float", ">");
      break;
  }
  return spec;
}

}  // namespace fft

void enumerate_fft(std::vector<jit::KernelSpec>& specs) {
  using namespace fft;
  for (const bool wide : {false, true}) {
    specs.push_back(make_spec(FftKernel::kGeneral, wide, {}));
    specs.push_back(make_spec(FftKernel::kMerge, wide, {}));
    for (const int n : block_lengths())
      for (const FftSide in : {FftSide::kRow, FftSide::kColumn})
        for (const FftSide out : {FftSide::kRow, FftSide::kColumn})
          for (const FftFetch fetch :
               {FftFetch::kComplex, FftFetch::kReal, FftFetch::kPacked, FftFetch::kHalf})
            for (const FftPut put : {FftPut::kComplex, FftPut::kPacked, FftPut::kHalf})
              for (const bool twiddle : {false, true}) {
                FftPass pass{{}, in, out, fetch, put, twiddle};
                if (!has_block(n, wide, pass)) continue;
                pass.shape = block_shape(n, wide, in, out);
                specs.push_back(make_spec(FftKernel::kBlock, wide, pass));
              }
  }
}

}  // namespace gpk::ops
