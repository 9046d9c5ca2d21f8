// The last step of a real transform of 2n that takes several passes: the transform of n pairs, in
// y[0 .. n - 1], becomes the first half of the spectrum, y[0 .. n], in place (element.cuh).
// Grid: x pairs of outputs of a transform, in tiles of the block; then the coordinates.
#pragma once

#include "fft/element.cuh"

namespace gpk {

template <class R>
__global__ void __launch_bounds__(kFftMergeThreads)
    fft_merge(const __grid_constant__ FftArgs args) {
  // A "transform" of the grid is a pair: coords[0] has n / 2 + 1 of them, and no strides.
  const FftPlace place = fft_place(args, kFftMergeThreads, static_cast<int>(threadIdx.x));
  if (!place.inside) return;
  const int n = args.n;
  const int k = static_cast<int>(place.first);
  const Complex<R>* const from = static_cast<const Complex<R>*>(args.out) + place.out;
  fft_put_halves<R, false>(args, place, n, k, from[k * args.out_stride],
                           from[(k == 0 ? 0 : n - k) * args.out_stride],
                           unit_root<R>(static_cast<unsigned>(k), 2 * static_cast<unsigned>(n)));
}

}  // namespace gpk
