// Transforms of any length that is a product of 2, 3, 4, 5, 7, 8, 11, 13 and 16, known at run time
// only: block.cuh's algorithm with every option of FftArgs. Elements are staged in shared memory;
// stages alternate between two halves of it.
// With two rounds it is Bluestein's algorithm in one launch: n is the length of the convolution,
// the spectrum between the rounds is multiplied by that of the filter. Grid: tiles of `group`
// transforms along coords[0], then the other coordinates.
#pragma once

#include "common/shared.cuh"
#include "fft/butterfly.cuh"
#include "fft/element.cuh"

namespace gpk {

template <class R>
struct FftGeneral {
  const FftArgs& args;
  Complex<R>* from;
  Complex<R>* to;

  __device__ __forceinline__ int slot(int g, int i) const { return g * args.pitch + i + (i >> 4); }

  // Calls visit(g, i) for every element of every transform, in the order of memory.
  template <class Visit>
  __device__ __forceinline__ void walk(FftSide side, int count, const Visit& visit) const {
    const int total = count * args.group;
    for (int at = static_cast<int>(threadIdx.x); at < total; at += kFftGeneralThreads) {
      const int slow = at / (side == FftSide::kRow ? count : args.group);
      const int fast = at - slow * (side == FftSide::kRow ? count : args.group);
      if (side == FftSide::kRow) {
        visit(slow, fast);
      } else {
        visit(fast, slow);
      }
    }
  }

  __device__ __forceinline__ Complex<R> fetch(const FftPlace& place, int index) const {
    switch (args.fetch) {
      case FftFetch::kComplex: return fft_fetch<R, FftFetch::kComplex, false>(args, place, index);
      case FftFetch::kReal: return fft_fetch<R, FftFetch::kReal, false>(args, place, index);
      case FftFetch::kPacked: return fft_fetch<R, FftFetch::kPacked, false>(args, place, index);
      case FftFetch::kHermitian:
        return fft_fetch<R, FftFetch::kHermitian, false>(args, place, index);
      case FftFetch::kHalf:
        return fft_fold<R, false>(
            args, place, index,
            unit_root<R>(static_cast<unsigned>(index), 2 * static_cast<unsigned>(args.length)));
      default: return fft_fetch<R, FftFetch::kFilter, false>(args, place, index);
    }
  }

  __device__ __forceinline__ void load() const {
    walk(args.in_side, args.n, [&](int g, int i) {
      const FftPlace place = fft_place(args, args.group, g);
      const unsigned index = static_cast<unsigned>(i) * args.in_step + place.in_index;
      Complex<R> x = {R(0), R(0)};
      // Only the first `chirp_n` elements have a chirp; the others are zeros.
      if (place.inside && (args.chirp == 0 || index < args.chirp_n)) {
        x = fetch(place, static_cast<int>(index));
        if (args.chirp != 0) x = x * chirp<R>(index, args.chirp_n);
      }
      from[slot(g, i)] = x;
    });
  }

  __device__ __forceinline__ void store() const {
    walk(args.out_side, args.n, [&](int g, int k) {
      const FftPlace place = fft_place(args, args.group, g);
      const unsigned index = static_cast<unsigned>(k) * args.out_step + place.out_index;
      if (!place.inside || static_cast<int>(index) >= args.count) return;
      Complex<R> y = from[slot(g, k)];
      if (args.twist == FftTwist::kTwiddle) {
        const unsigned along = static_cast<unsigned>(place.first);
        y = y * unit_root<R>(along * static_cast<unsigned>(k), args.root);
      } else if (args.twist == FftTwist::kTable) {
        y = y * static_cast<const Complex<R>*>(args.table)[index];
      } else if (args.twist == FftTwist::kChirp) {
        y = conjugate(y) * chirp<R>(index, args.chirp_n);
      }
      switch (args.put) {
        case FftPut::kReal:
          fft_put<R, FftPut::kReal, false>(args, place, static_cast<int>(index), y);
          break;
        case FftPut::kPacked:
          fft_put<R, FftPut::kPacked, false>(args, place, static_cast<int>(index), y);
          break;
        default: fft_put<R, FftPut::kComplex, false>(args, place, static_cast<int>(index), y);
      }
    });
  }

  // One launch: the index is k.
  __device__ __forceinline__ void store_halves() const {
    walk(args.out_side, args.n / 2 + 1, [&](int g, int k) {
      const FftPlace place = fft_place(args, args.group, g);
      if (!place.inside) return;
      fft_put_halves<R, false>(
          args, place, args.n, k, from[slot(g, k)], from[slot(g, k == 0 ? 0 : args.n - k)],
          unit_root<R>(static_cast<unsigned>(k), 2 * static_cast<unsigned>(args.n)));
    });
  }

  // Between two rounds: the inverse transform of a conjugate is a conjugate.
  __device__ __forceinline__ void filter() const {
    walk(FftSide::kRow, args.n, [&](int g, int k) {
      Complex<R>& y = from[slot(g, k)];
      y = conjugate(y * static_cast<const Complex<R>*>(args.table)[k]);
    });
  }

  template <int kR>
  __device__ __forceinline__ void stage(int p) const {
    const int butterflies = args.n / kR;
    walk(FftSide::kRow, butterflies, [&](int g, int b) {
      Complex<R> v[kR];
#pragma unroll
      for (int j = 0; j < kR; ++j) v[j] = from[slot(g, b + j * butterflies)];
      const int k = b % p;
      if (p > 1) {
        Complex<R> roots[kR];
        root_powers(roots, static_cast<unsigned>(k), static_cast<unsigned>(p * kR));
#pragma unroll
        for (int j = 1; j < kR; ++j) v[j] = v[j] * roots[j];
      }
      Dft<kR>::run(v);
#pragma unroll
      for (int j = 0; j < kR; ++j) to[slot(g, (b - k) * kR + k + j * p)] = v[j];
    });
  }

  __device__ __forceinline__ void run() {
    load();
    __syncthreads();
    for (int round = 0; round < args.rounds; ++round) {
      if (round > 0) {
        filter();
        __syncthreads();
      }
      int p = 1;
      for (int s = 0; s < args.num_stages; ++s) {
        const int radix = args.radices[s];
        switch (radix) {
          case 2: stage<2>(p); break;
          case 3: stage<3>(p); break;
          case 4: stage<4>(p); break;
          case 5: stage<5>(p); break;
          case 7: stage<7>(p); break;
          case 8: stage<8>(p); break;
          case 11: stage<11>(p); break;
          case 13: stage<13>(p); break;
          default: stage<16>(p); break;
        }
        p *= radix;
        __syncthreads();
        Complex<R>* const last = from;
        from = to;
        to = last;
      }
    }
    if (args.put == FftPut::kHalf) {
      store_halves();
    } else {
      store();
    }
  }
};

template <class R>
__global__ void __launch_bounds__(kFftGeneralThreads)
    fft_general(const __grid_constant__ FftArgs args) {
  Complex<R>* const shared = reinterpret_cast<Complex<R>*>(dynamic_shared());
  FftGeneral<R> transforms{args, shared, shared + args.group * args.pitch};
  transforms.run();
}

}  // namespace gpk
