// Elements of transforms in memory: where they are, what they become before and after.
// Real transforms of 2n are complex ones of n on pairs of reals, z[i] = x[2i] + i x[2i + 1]. With
// w = e^(-2 pi i / 2n), indices modulo n, and Z the transform of z:
//   forward  X[k] = E + w^k O, X[n - k] = conj(E - w^k O), E = (Z[k] + conj(Z[n - k])) / 2,
//            O = (Z[k] - conj(Z[n - k])) / 2i
//   back     Z[k] = (X[k] + conj(X[n - k])) + i w^k (X[k] - conj(X[n - k]))
#pragma once

#include "args/fft.h"
#include "common/vec.cuh"
#include "fft/roots.cuh"

namespace gpk {

using namespace kernels;

// A transform: its place in both arrays. Outside: past the last one of a block.
struct FftPlace {
  long long in = 0, out = 0;
  unsigned in_index = 0, out_index = 0;
  long long first = 0;  // index along coords[0]
  bool inside = false;
};

// Transform `g` of a block of `group`.
__device__ __forceinline__ FftPlace fft_place(const FftArgs& args, int group, int g) {
  unsigned tile = blockIdx.x;
  unsigned rest = 0;
  if (args.num_coords > 1) {
    rest = tile / args.tiles;
    tile -= rest * args.tiles;
  }
  FftPlace place;
  place.first = static_cast<long long>(tile) * group + g;
  place.inside = place.first < args.coords[0].size;
  place.in = place.first * args.coords[0].in;
  place.out = place.first * args.coords[0].out;
  place.in_index = static_cast<unsigned>(place.first) * args.coords[0].in_index;
  place.out_index = static_cast<unsigned>(place.first) * args.coords[0].out_index;
#pragma unroll
  for (int d = 1; d < kFftMaxCoords; ++d) {
    if (d >= args.num_coords) break;
    const FftCoord& coord = args.coords[d];
    unsigned at = rest;
    if (d + 1 < args.num_coords) {
      const unsigned size = static_cast<unsigned>(coord.size);
      rest = at / size;
      at -= rest * size;
    }
    place.in += at * coord.in;
    place.out += at * coord.out;
    place.in_index += at * coord.in_index;
    place.out_index += at * coord.out_index;
  }
  return place;
}

// What stages.cuh is given to read and write transforms by, kG of them in a block.
template <int kG>
struct FftIo {
  using Place = FftPlace;
  static constexpr bool kHasRoots = false;
  static constexpr bool kFromShared = false;
  const FftArgs& args;

  __device__ __forceinline__ Place place(int g) const { return fft_place(args, kG, g); }
};

// The part of a spectrum that a real transform reads; the first and the last one are real.
template <class R, bool kUnit>
__device__ __forceinline__ Complex<R> fetch_spectrum(const FftArgs& args, const Complex<R>* from,
                                                     int index, bool real) {
  if (index >= args.valid) return {R(0), R(0)};
  const Complex<R> x = from[kUnit ? index : index * args.in_stride];
  return {x.re, real ? R(0) : x.im * static_cast<R>(args.sign)};
}

// Element `index` of the whole transform. kUnit: in_stride is 1. kHalf is fft_fold's.
template <class R, FftFetch kFetch, bool kUnit>
__device__ __forceinline__ Complex<R> fft_fetch(const FftArgs& args, const FftPlace& place,
                                                int index) {
  const long long stride = kUnit ? 1 : args.in_stride;
  if constexpr (kFetch == FftFetch::kComplex) {
    if (index >= args.valid) return {R(0), R(0)};
    const Complex<R> x = (static_cast<const Complex<R>*>(args.in) + place.in)[index * stride];
    return {x.re, x.im * static_cast<R>(args.sign)};
  } else if constexpr (kFetch == FftFetch::kReal) {
    if (index >= args.valid) return {R(0), R(0)};
    return {(static_cast<const R*>(args.in) + place.in)[index * stride], R(0)};
  } else if constexpr (kFetch == FftFetch::kPacked) {
    const R* const from = static_cast<const R*>(args.in) + place.in + index * (2 * stride);
    if (kUnit && args.in_pairs != 0 && 2 * index + 1 < args.valid) {
      const Vec<R, 2> pair = load_vec<R, 2>(from);
      return {pair.v[0], pair.v[1]};
    }
    return {2 * index < args.valid ? from[0] : R(0),
            2 * index + 1 < args.valid ? from[stride] : R(0)};
  } else if constexpr (kFetch == FftFetch::kHermitian) {
    const Complex<R>* const from = static_cast<const Complex<R>*>(args.in) + place.in;
    const bool second = index > args.length / 2;
    const Complex<R> x =
        fetch_spectrum<R, kUnit>(args, from, second ? args.length - index : index, index == 0);
    return second ? conjugate(x) : x;
  } else {
    static_assert(kFetch == FftFetch::kFilter);
    // The conjugate chirp, forwards and backwards from 0.
    const unsigned at = static_cast<unsigned>(index);
    const unsigned back = static_cast<unsigned>(args.length) - at;
    if (at >= args.chirp_n && back >= args.chirp_n) return {R(0), R(0)};
    return conjugate(chirp<R>(at < args.chirp_n ? at : back, args.chirp_n));
  }
}

// FftFetch::kHalf, with w^index given.
template <class R, bool kUnit>
__device__ __forceinline__ Complex<R> fft_fold(const FftArgs& args, const FftPlace& place,
                                               int index, Complex<R> root) {
  const Complex<R>* const from = static_cast<const Complex<R>*>(args.in) + place.in;
  const bool ends = index == 0;
  const Complex<R> x = fetch_spectrum<R, kUnit>(args, from, index, ends);
  const Complex<R> y = conjugate(fetch_spectrum<R, kUnit>(args, from, args.length - index, ends));
  const Complex<R> z = root * (x - y);
  return {x.re + y.re - z.im, x.im + y.im + z.re};
}

template <class R, FftPut kPut, bool kUnit>
__device__ __forceinline__ void fft_put(const FftArgs& args, const FftPlace& place, int index,
                                        Complex<R> value) {
  if (index >= args.count) return;
  const long long stride = kUnit ? 1 : args.out_stride;
  value = {value.re * static_cast<R>(args.scale_re), value.im * static_cast<R>(args.scale_im)};
  if constexpr (kPut == FftPut::kReal) {
    (static_cast<R*>(args.out) + place.out)[index * stride] = value.re;
  } else if constexpr (kPut == FftPut::kPacked) {
    R* const to = static_cast<R*>(args.out) + place.out + index * (2 * stride);
    if (kUnit && args.out_pairs != 0) {
      store_vec<R, 2>(to, {value.re, value.im});
    } else {
      to[0] = value.re;
      to[stride] = value.im;
    }
  } else {
    (static_cast<Complex<R>*>(args.out) + place.out)[index * stride] = value;
  }
}

// Outputs k and n - k of FftPut::kHalf from Z[k], Z[n - k] and w^k.
template <class R, bool kUnit>
__device__ __forceinline__ void fft_put_halves(const FftArgs& args, const FftPlace& place, int n,
                                               int k, Complex<R> x, Complex<R> y, Complex<R> root) {
  const R half = R(0.5);
  y = conjugate(y);
  const Complex<R> even = scaled(x + y, half);
  const Complex<R> odd = root * scaled(times_minus_i(x - y), half);
  fft_put<R, FftPut::kComplex, kUnit>(args, place, k, even + odd);
  if (k != n - k) fft_put<R, FftPut::kComplex, kUnit>(args, place, n - k, conjugate(even - odd));
}

}  // namespace gpk
