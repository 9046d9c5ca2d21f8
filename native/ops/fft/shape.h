// The transforms of one block.
#pragma once

#include "ops/fft/plan.h"

namespace gpk::ops::fft {

// The stages of shape.n, which has no prime factor above 13.
void add_radices(FftShape& shape);

// Whether n is a product of 2, 3, 5 and 7 that fft_block has kernels for.
bool is_block_length(int n);
// Whether it has one for a pass: the plan of any pass with transforms of n may take it.
bool has_block(int n, bool wide, const FftPass& pass);
// The same of fft_bluestein, n the points of the convolution.
bool has_bluestein(int n, bool wide, const FftPass& pass);
FftShape block_shape(int n, bool wide, FftSide in, FftSide out);

// fft_general; shape.shared_bytes is above the limit where not even one transform fits.
FftShape general_shape(int n, bool wide, FftSide in, FftSide out, std::size_t shared_bytes);

}  // namespace gpk::ops::fft
