// float64 GEMM on INT8 tensor cores (the Ozaki scheme). A row of A (column of B) with its largest
// magnitude below 2^e is rounded to integers, x = I 2^(e - 62), of eight signed digits of base 256:
//   I = sum over s of digit[s] 256^(7 - s).
// C = 2^(e_a + e_b - 68) sum over g < 8 of D[g] 256^(7 - g), D[g] the sum of the int8 products of
// slices s and g - s: one GEMM each, of slices side by side (engine_ozaki.cpp). Sums are integers:
// the same bits in any order. Of infinities and NaN C is the float64 sum in order of k.
//   ozaki_slices: a block per row of x [rows, k]; a thread takes four of k at a time. 128 threads.
//   ozaki_sum:    a thread per element of C. Grid: x columns, y rows. 128 threads.
#pragma once

#include "matmul/arithmetic.cuh"

namespace gpk {

// The largest magnitude of a row, by its bits: NaN is the largest.
__device__ __forceinline__ unsigned long long row_peak(const double* x, long long k) {
  __shared__ unsigned long long peaks[kOzakiThreads / 32];
  unsigned long long peak = 0;
  for (long long l = threadIdx.x; l < k; l += kOzakiThreads) {
    const unsigned long long bits =
        static_cast<unsigned long long>(__double_as_longlong(x[l])) & ~(1ull << 63);
    peak = bits > peak ? bits : peak;
  }
#pragma unroll
  for (int o = 16; o > 0; o /= 2) {
    const unsigned long long other = __shfl_xor_sync(0xffffffffu, peak, o);
    peak = other > peak ? other : peak;
  }
  if (threadIdx.x % 32 == 0) peaks[threadIdx.x / 32] = peak;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < kOzakiThreads / 32; ++warp)
    peak = peaks[warp] > peak ? peaks[warp] : peak;
  return peak;
}

// A magnitude as mantissa 2^exponent.
struct DoubleParts {
  unsigned long long mantissa;
  int exponent;
};
__device__ __forceinline__ DoubleParts parts_of(unsigned long long bits) {
  const int biased = static_cast<int>(bits >> 52);
  const unsigned long long fraction = bits & ((1ull << 52) - 1);
  if (biased == 0) return {fraction, -1074};
  return {fraction | 1ull << 52, biased - 1075};
}

// x 2^(62 - e), to the nearest integer.
__device__ __forceinline__ long long to_fixed(double x, int e) {
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(x));
  const DoubleParts parts = parts_of(bits & ~(1ull << 63));
  const int shift = parts.exponent + 62 - e;
  unsigned long long size = 0;
  if (shift >= 0) {
    size = parts.mantissa << shift;
  } else if (shift > -55) {
    size = (parts.mantissa + (1ull << (-shift - 1))) >> -shift;
  }
  const auto whole = static_cast<long long>(size);
  return bits >> 63 != 0 ? -whole : whole;
}

__global__ void __launch_bounds__(kOzakiThreads) ozaki_slices(const OzakiSliceArgs args) {
  const long long row = blockIdx.x;
  const double* const x = args.x + row * args.k;
  const unsigned long long peak = row_peak(x, args.k);
  const bool finite = peak >> 52 != 0x7ff;
  int e = 0;
  if (finite && peak != 0) {
    const DoubleParts largest = parts_of(peak);
    e = largest.exponent + 64 - __clzll(static_cast<long long>(largest.mantissa));
  }
  if (threadIdx.x == 0) args.exponents[row] = finite ? e : kOzakiNotFinite;
  const long long pitch = args.pitch;
  for (long long l = threadIdx.x * 4ll; l < args.chunks * pitch; l += kOzakiThreads * 4) {
    unsigned words[kOzakiSlices] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      long long rest = finite && l + i < args.k ? to_fixed(x[l + i], e) : 0;
#pragma unroll
      for (int s = kOzakiSlices - 1; s >= 0; --s) {
        const auto digit = static_cast<signed char>(rest & 0xff);
        words[s] |= static_cast<unsigned>(digit & 0xff) << (8 * i);
        rest = (rest - digit) >> 8;
      }
    }
    const long long chunk = l / pitch;
    signed char* const out =
        args.slices + (chunk * args.rows + row) * kOzakiSlices * pitch + (l - chunk * pitch);
#pragma unroll
    for (int s = 0; s < kOzakiSlices; ++s) {
      const int place = args.reversed != 0 ? kOzakiSlices - 1 - s : s;
      *reinterpret_cast<unsigned*>(out + place * pitch) = words[s];
    }
  }
}

__device__ __forceinline__ double plain_sum(const MatmulArgs& args, const BatchOffsets& at,
                                            long long i, long long j) {
  const double* const a = static_cast<const double*>(args.a) + at.a + i * args.a_m;
  const double* const b = static_cast<const double*>(args.b) + at.b + j * args.b_n;
  double sum = 0.0;
  for (long long l = 0; l < args.k; ++l) sum = fma(a[l * args.a_k], b[l * args.b_k], sum);
  return sum;
}

__global__ void __launch_bounds__(kOzakiThreads)
    ozaki_sum(const __grid_constant__ MatmulArgs args, const __grid_constant__ OzakiSumArgs of) {
  const long long j = static_cast<long long>(blockIdx.x) * kOzakiThreads + threadIdx.x;
  if (j >= args.n) return;
  const long long rows = args.num_batches * of.num_rows;
  for (long long row = blockIdx.y; row < rows; row += gridDim.y) {
    const long long batch = row / of.num_rows;
    const long long i = of.first_row + row - batch * of.num_rows;
    const BatchOffsets at = batch_offsets(args, batch);
    double* const c = static_cast<double*>(args.c) + at.c + i * args.c_m + j * args.c_n;
    const int e_a = of.exponents_a[batch * args.m + i];
    const int e_b = of.exponents_b[batch * args.n + j];
    if (e_a == kOzakiNotFinite || e_b == kOzakiNotFinite) {
      *c = plain_sum(args, at, i, j);
      continue;
    }
    const int* from = of.sums + row * args.n + j;
    long long high = 0;  // the sum is high 2^32 + low
    long long low = 0;
    for (long long chunk = 0; chunk < of.chunks; ++chunk) {
      long long half[2] = {};
#pragma unroll
      for (int g = 0; g < kOzakiSlices; ++g, from += rows * args.n)
        half[g / 4] = half[g / 4] * 256 + *from;
      high += half[0];
      low += half[1];
    }
    high += low >> 32;
    low &= 0xffffffffll;
    const double sum = fma(static_cast<double>(high), 4294967296.0, static_cast<double>(low));
    *c = ldexp(sum, e_a + e_b - 68);
  }
}

}  // namespace gpk
