// The stages of transforms of one length in registers and shared memory, for kernels of this folder
// and of others that read and write frames in their own way:
//   y[k] = sum over i of x[i] e^(-2 pi i i k / n), n the product of kRadices
// Stockham: stage by stage a thread reads kR values that are n / kR apart, multiplies them by
// roots, transforms them and writes them kP apart, kP the product of the radices before; results
// are in order. Block: kG transforms, kT threads each, threads with neighbouring elements next to
// each other (kRow) or threads with neighbouring transforms (kColumn). Between the stages all goes
// through shared memory (kG * kPitch elements, padded against bank conflicts), so that input and
// output may differ in this: a transposition is free.
#pragma once

#include "args/fft.h"
#include "fft/butterfly.cuh"

namespace gpk {

using namespace kernels;

__device__ constexpr int fft_product() { return 1; }
template <class... Rest>
__device__ constexpr int fft_product(int first, Rest... rest) {
  return first * fft_product(rest...);
}
template <class... Rest>
__device__ constexpr int fft_first(int first, Rest...) {
  return first;
}

template <class R, int kT, int kG, int kPitch, FftSide kIn, FftSide kOut, int... kRadices>
struct FftStages {
  static constexpr int kN = fft_product(kRadices...);
  static constexpr bool kPadded = fft_first(kRadices...) % kFftPaddedRadix == 0;
  static_assert(kPitch >= kN + (kPadded ? kN / 16 : 0));
  // The threads of a transform are in one warp.
  static constexpr bool kInWarp =
      kIn == FftSide::kRow && kOut == FftSide::kRow && kT <= 32 && 32 % kT == 0;

  Complex<R>* shared;

  // The thread's index in its transform, and the transform's in the block.
  template <FftSide kSide>
  static __device__ __forceinline__ int thread() {
    const int at = static_cast<int>(threadIdx.x);
    return kSide == FftSide::kRow ? at % kT : at / kG;
  }
  template <FftSide kSide>
  static __device__ __forceinline__ int transform() {
    const int at = static_cast<int>(threadIdx.x);
    return kSide == FftSide::kRow ? at / kT : at % kG;
  }
  static __device__ __forceinline__ void sync() {
    if constexpr (kInWarp) {
      __syncwarp();
    } else {
      __syncthreads();
    }
  }
  template <FftSide kSide>
  __device__ __forceinline__ Complex<R>& slot(int i) const {
    return shared[transform<kSide>() * kPitch + (kPadded ? i + (i >> 4) : i)];
  }

  // With v[kR], io.load(v, place, first) reads elements first + j n / kR and io.store(v, place,
  // first) writes outputs first + j n / kR; place = io.place(transform in the block). kKeep:
  // outputs are left in slot<kOut>(k) instead, for all threads. Io::kHasRoots: io.root<kDen>(num)
  // is e^(-2 pi i num / kDen), num < kDen; else roots are evaluated. Io::kFromShared: io.load reads
  // the shared memory of the stages.
  template <bool kKeep, class Io>
  __device__ __forceinline__ void run(const Io& io) const {
    stages<kKeep, Io, 1, kRadices...>(io);
  }

 private:
  // kP: the product of the radices before.
  template <bool kKeep, class Io, int kP, int kR, int... kRest>
  __device__ __forceinline__ void stages(const Io& io) const {
    constexpr bool kFirst = kP == 1;
    constexpr bool kLast = sizeof...(kRest) == 0;
    constexpr bool kStores = kLast && !kKeep;
    constexpr FftSide kSide = kFirst ? kIn : kOut;
    constexpr int kButterflies = kN / kR;
    constexpr int kEach = (kButterflies + kT - 1) / kT;
    constexpr bool kEven = kButterflies % kT == 0;
    const int t = thread<kSide>();
    typename Io::Place place{};
    if constexpr (kFirst || kStores) place = io.place(transform<kSide>());
    Complex<R> v[kEach][kR];
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int b = t + e * kT;
      if (!kEven && b >= kButterflies) continue;
      if constexpr (kFirst) {
        io.load(v[e], place, b);
      } else {
#pragma unroll
        for (int j = 0; j < kR; ++j) v[e][j] = slot<kSide>(b + j * kButterflies);
      }
    }
    if constexpr ((!kFirst || Io::kFromShared) && !kStores) sync();
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      const int b = t + e * kT;
      if (!kEven && b >= kButterflies) continue;
      const int k = b % kP;
      if constexpr (!kFirst) {
        constexpr unsigned kDen = static_cast<unsigned>(kP * kR);
        if constexpr (Io::kHasRoots) {
#pragma unroll
          for (int j = 1; j < kR; ++j)
            v[e][j] = v[e][j] * io.template root<kDen>(static_cast<unsigned>(k * j));
        } else {
          Complex<R> roots[kR];
          root_powers_of<R, kR, kDen>(roots, static_cast<unsigned>(k));
#pragma unroll
          for (int j = 1; j < kR; ++j) v[e][j] = v[e][j] * roots[j];
        }
      }
      Dft<kR>::run(v[e]);
      if constexpr (kStores) {
        io.store(v[e], place, b);
      } else {
#pragma unroll
        for (int j = 0; j < kR; ++j) slot<kSide>((b - k) * kR + k + j * kP) = v[e][j];
      }
    }
    if constexpr (!kStores) sync();
    if constexpr (!kLast) stages<kKeep, Io, kP * kR, kRest...>(io);
  }
};

}  // namespace gpk
