// Arguments of the kernels in kernels/random: a stream of words, and the parameters of a draw.
#pragma once

namespace gpk::kernels {

// A Philox key and a 96-bit counter, in blocks of four words.
struct RandomStream {
  unsigned key[2];
  unsigned long long position_low;
  unsigned position_high;
  unsigned unused;
};
static_assert(sizeof(RandomStream) == 24 && __is_trivially_copyable(RandomStream));

// Real: the arithmetic type of the dtype, float or double.
template <class Real>
struct UniformArgs {
  Real low, range;
};

template <class Real>
struct NormalArgs {
  Real loc, scale;
};

template <class Real>
struct ExponentialArgs {
  Real scale;
};

// True for words below the threshold: probability * 2**32.
struct BernoulliArgs {
  unsigned long long threshold;
};

// Values low to low + range - 1. A range of 0 means 2**64 where 64-bit words are drawn.
struct IntegerArgs {
  unsigned long long low, range;
};

// Up to two parameters: one number for all elements, or an array with one for each.
struct VariateArgs {
  const double* first;  // null: first_value
  const double* second;
  double first_value, second_value;
};

}  // namespace gpk::kernels
