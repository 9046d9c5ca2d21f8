// Transforms of one length, a product of radices (stages.cuh). Inverse transforms conjugate what is
// read and what is written.
// Grid: tiles of kG transforms along coords[0], then the other coordinates. Block: kT threads a
// transform. Layouts: FftArgs; rows (kRow) have a stride of 1.
#pragma once

#include "common/shared.cuh"
#include "fft/element.cuh"
#include "fft/stages.cuh"

namespace gpk {

template <class R, int kG, FftSide kIn, FftSide kOut, FftFetch kFetch, FftPut kPut, bool kTwiddle,
          int kN>
struct FftBlock : FftIo<kG> {
  using Place = FftPlace;
  using FftIo<kG>::args;

  template <int kR>
  __device__ __forceinline__ void load(Complex<R> (&v)[kR], const Place& place, int first) const {
    constexpr int kStep = kN / kR;
    constexpr bool kUnit = kIn == FftSide::kRow;
    if (!place.inside) return;
    const auto index = [&](int i) {
      return kUnit ? i : static_cast<int>(static_cast<unsigned>(i) * args.in_step + place.in_index);
    };
    if constexpr (kFetch == FftFetch::kHalf) {
      const unsigned den = 2 * static_cast<unsigned>(args.length);
      const Complex<R> base = unit_root<R>(static_cast<unsigned>(index(first)), den);
      Complex<R> steps[kR];
      root_powers(steps, static_cast<unsigned>(kStep) * (kUnit ? 1u : args.in_step), den);
#pragma unroll
      for (int j = 0; j < kR; ++j)
        v[j] = fft_fold<R, kUnit>(args, place, index(first + j * kStep), base * steps[j]);
    } else {
#pragma unroll
      for (int j = 0; j < kR; ++j)
        v[j] = fft_fetch<R, kFetch, kUnit>(args, place, index(first + j * kStep));
    }
  }

  template <int kR>
  __device__ __forceinline__ void store(Complex<R> (&v)[kR], const Place& place, int first) const {
    constexpr int kStep = kN / kR;
    constexpr bool kUnit = kOut == FftSide::kRow;
    if (!place.inside) return;
    if constexpr (kTwiddle) {
      const unsigned along = static_cast<unsigned>(place.first);
      const Complex<R> base = unit_root<R>(along * static_cast<unsigned>(first), args.root);
      Complex<R> steps[kR];
      root_powers(steps, along * static_cast<unsigned>(kStep), args.root);
#pragma unroll
      for (int j = 0; j < kR; ++j) v[j] = v[j] * (base * steps[j]);
    }
#pragma unroll
    for (int j = 0; j < kR; ++j) {
      const int k = first + j * kStep;
      fft_put<R, kPut, kUnit>(
          args, place,
          kUnit ? k : static_cast<int>(static_cast<unsigned>(k) * args.out_step + place.out_index),
          v[j]);
    }
  }
};

template <class R, int kT, int kG, int kPitch, FftSide kIn, FftSide kOut, FftFetch kFetch,
          FftPut kPut, bool kTwiddle, int... kRadices>
__global__ void __launch_bounds__(kT* kG) fft_block(const __grid_constant__ FftArgs args) {
  using Stages = FftStages<R, kT, kG, kPitch, kIn, kOut, kRadices...>;
  constexpr int kN = Stages::kN;
  const FftBlock<R, kG, kIn, kOut, kFetch, kPut, kTwiddle, kN> io{{args}};
  const Stages stages{reinterpret_cast<Complex<R>*>(dynamic_shared())};
  stages.template run<kPut == FftPut::kHalf>(io);
  if constexpr (kPut == FftPut::kHalf) {  // pairs of outputs
    const FftPlace place = io.place(Stages::template transform<kOut>());
    constexpr int kEach = (kN / 2 + kT) / kT;
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int k = Stages::template thread<kOut>() + e * kT;
      if (k > kN / 2 || !place.inside) continue;
      fft_put_halves<R, kOut == FftSide::kRow>(args, place, kN, k, stages.template slot<kOut>(k),
                                               stages.template slot<kOut>(k == 0 ? 0 : kN - k),
                                               unit_root_of<R, 2 * kN>(static_cast<unsigned>(k)));
    }
  }
}

}  // namespace gpk
