#include "ops/fft/kernels.h"

#include "base/text.h"
#include "ops/fft/shape.h"
#include "ops/op.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace fft {
namespace {

// Lengths of fft_block that are enumerated: powers of two, and some of the thousand others.
constexpr int kSampledLengths[] = {
    2,    3,    4,    5,    6,     7,     8,     9,     10,    12,   14,   15,   16,   20,   21,
    24,   30,   32,   36,   45,    48,    56,    64,    75,    80,   96,   100,  105,  120,  128,
    144,  160,  175,  192,  200,   225,   240,   250,   256,   280,  300,  343,  360,  400,  480,
    500,  512,  600,  625,  720,   768,   800,   900,   1000,  1024, 1200, 1260, 1536, 1600, 1920,
    2000, 2048, 2187, 2401, 2500,  3000,  3125,  3600,  4000,  4096, 4800, 5000, 6000, 6561, 7000,
    7680, 8000, 8192, 9000, 10000, 12000, 14400, 15000, 16000, 16384};

const char* name(FftSide side) {
  return side == FftSide::kRow ? "gpk::kernels::FftSide::kRow" : "gpk::kernels::FftSide::kColumn";
}
const char* name(FftFetch fetch) {
  switch (fetch) {
    case FftFetch::kReal: return "gpk::kernels::FftFetch::kReal";
    case FftFetch::kPacked: return "gpk::kernels::FftFetch::kPacked";
    case FftFetch::kHalf: return "gpk::kernels::FftFetch::kHalf";
    case FftFetch::kHermitian: return "gpk::kernels::FftFetch::kHermitian";
    default: return "gpk::kernels::FftFetch::kComplex";
  }
}
const char* name(FftPut put) {
  switch (put) {
    case FftPut::kReal: return "gpk::kernels::FftPut::kReal";
    case FftPut::kPacked: return "gpk::kernels::FftPut::kPacked";
    case FftPut::kHalf: return "gpk::kernels::FftPut::kHalf";
    default: return "gpk::kernels::FftPut::kComplex";
  }
}

std::string expression(FftKernel which, bool wide, const FftPass& pass) {
  const FftShape& shape = pass.shape;
  std::string text =
      cat(which == FftKernel::kBlock ? "gpk::fft_block<" : "gpk::fft_bluestein<",
          wide ? "double" : "float", ", ", shape.threads_each, ", ", shape.group, ", ", shape.pitch,
          ", ", name(pass.in), ", ", name(pass.out), ", ", name(pass.fetch), ", ", name(pass.put));
  if (which == FftKernel::kBlock) text = cat(text, ", ", pass.twiddle ? "true" : "false");
  for (int s = 0; s < shape.num_stages; ++s)
    text = cat(text, ", ", shape.radices[static_cast<std::size_t>(s)]);
  return cat(text, ">");
}

}  // namespace

std::uint64_t pack(FftKernel which, bool wide, const FftPass& pass) {
  plan::KeyBuilder key;
  key.field("wide", wide, 1);
  if (which == FftKernel::kBlock || which == FftKernel::kBluestein)
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
      spec.expression = expression(which, wide, pass);
      spec.bundled = false;
      break;
    case FftKernel::kBluestein:
      spec.file = "fft/bluestein.cuh";
      spec.expression = expression(which, wide, pass);
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
    for (const int n : kSampledLengths)
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
    for (const int n : {32, 40, 48, 64, 256, 768, 1280, 2048, 2560, 3072, 4096})
      for (const FftSide side : {FftSide::kRow, FftSide::kColumn})
        for (const FftFetch fetch : {FftFetch::kComplex, FftFetch::kReal, FftFetch::kHermitian}) {
          const FftPut put = fetch == FftFetch::kHermitian ? FftPut::kReal : FftPut::kComplex;
          FftPass pass{{}, side, side, fetch, put, false};
          if (!has_bluestein(n, wide, pass)) continue;
          pass.shape = block_shape(n, wide, side, side);
          specs.push_back(make_spec(FftKernel::kBluestein, wide, pass));
        }
  }
}

}  // namespace gpk::ops
