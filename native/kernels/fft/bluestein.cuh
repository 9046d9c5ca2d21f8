// Bluestein's algorithm in one launch: a transform of n points as a circular convolution of kN >=
// 2 n - 1, with c[i] = e^(-pi i i^2 / n) and `table` the transform of conj(c) over kN:
//   y[k] = c[k] conj(F(conj(F(c x) table)))[k]
// Both transforms F are stages of a block (stages.cuh); what is between them stays in shared
// memory. Grid, block and layouts: those of block.cuh.
#pragma once

#include "common/shared.cuh"
#include "fft/element.cuh"
#include "fft/stages.cuh"

namespace gpk {

// c x from memory.
template <class R, int kG, FftSide kIn, FftFetch kFetch, int kN>
struct ChirpedInput : FftIo<kG> {
  using FftIo<kG>::args;

  template <int kR>
  __device__ __forceinline__ void load(Complex<R> (&v)[kR], const FftPlace& place,
                                       int first) const {
    constexpr bool kUnit = kIn == FftSide::kRow;
#pragma unroll
    for (int j = 0; j < kR; ++j) {
      const unsigned index = static_cast<unsigned>(first + j * (kN / kR));
      v[j] = {R(0), R(0)};
      if (!place.inside || index >= args.chirp_n) continue;
      const Complex<R> x = fft_fetch<R, kFetch, kUnit>(args, place, static_cast<int>(index));
      v[j] = x * chirp<R>(index, args.chirp_n);
    }
  }
};

// The first transform times the filter's, and the results to memory.
template <class R, class First, int kG, FftSide kOut, FftPut kPut, int kN>
struct ChirpedOutput : FftIo<kG> {
  using FftIo<kG>::args;
  static constexpr bool kFromShared = true;
  const First& transformed;

  template <int kR>
  __device__ __forceinline__ void load(Complex<R> (&v)[kR], const FftPlace&, int first) const {
    const Complex<R>* const table = static_cast<const Complex<R>*>(args.table);
#pragma unroll
    for (int j = 0; j < kR; ++j) {
      const int index = first + j * (kN / kR);
      v[j] = conjugate(transformed.template slot<FftSide::kRow>(index) * table[index]);
    }
  }

  template <int kR>
  __device__ __forceinline__ void store(Complex<R> (&v)[kR], const FftPlace& place,
                                        int first) const {
#pragma unroll
    for (int j = 0; j < kR; ++j) {
      const unsigned index = static_cast<unsigned>(first + j * (kN / kR));
      if (!place.inside || index >= args.chirp_n) continue;
      fft_put<R, kPut, kOut == FftSide::kRow>(args, place, static_cast<int>(index),
                                              conjugate(v[j]) * chirp<R>(index, args.chirp_n));
    }
  }
};

template <class R, int kT, int kG, int kPitch, FftSide kIn, FftSide kOut, FftFetch kFetch,
          FftPut kPut, int... kRadices>
__global__ void __launch_bounds__(kT* kG) fft_bluestein(const __grid_constant__ FftArgs args) {
  using First = FftStages<R, kT, kG, kPitch, kIn, FftSide::kRow, kRadices...>;
  using Second = FftStages<R, kT, kG, kPitch, FftSide::kRow, kOut, kRadices...>;
  Complex<R>* const shared = reinterpret_cast<Complex<R>*>(dynamic_shared());
  const First first{shared};
  first.template run<true>(ChirpedInput<R, kG, kIn, kFetch, First::kN>{{args}});
  const Second second{shared};
  second.template run<false>(ChirpedOutput<R, First, kG, kOut, kPut, First::kN>{{args}, first});
}

}  // namespace gpk
