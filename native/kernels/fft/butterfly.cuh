// DFTs of 2 to 16 values in registers, in natural order:
//   v[k] <- sum over j of v[j] e^(-2 pi i j k / kR)
// Powers of two are split into 2 and 4; odd primes use the symmetry of j and kR - j, half the
// multiplications of the sum; products of coprimes need no twiddles (Good-Thomas).
#pragma once

#include "fft/roots.cuh"

namespace gpk {

// cos and sin of 2 pi num / den, den odd and prime, num up to den / 2. The arguments are constants
// after unrolling.
__device__ __forceinline__ double prime_cos(int num, int den) {
  switch (den * 8 + num) {
    case 3 * 8 + 1: return -0.5;
    case 5 * 8 + 1: return 0.30901699437494745;
    case 5 * 8 + 2: return -0.8090169943749475;
    case 7 * 8 + 1: return 0.6234898018587335;
    case 7 * 8 + 2: return -0.2225209339563144;
    case 7 * 8 + 3: return -0.9009688679024191;
    case 11 * 8 + 1: return 0.8412535328311812;
    case 11 * 8 + 2: return 0.41541501300188644;
    case 11 * 8 + 3: return -0.14231483827328514;
    case 11 * 8 + 4: return -0.6548607339452851;
    case 11 * 8 + 5: return -0.9594929736144974;
    case 13 * 8 + 1: return 0.8854560256532099;
    case 13 * 8 + 2: return 0.5680647467311558;
    case 13 * 8 + 3: return 0.12053668025532305;
    case 13 * 8 + 4: return -0.3546048870425356;
    case 13 * 8 + 5: return -0.7485107481711011;
    default: return -0.970941817426052;
  }
}
__device__ __forceinline__ double prime_sin(int num, int den) {
  switch (den * 8 + num) {
    case 3 * 8 + 1: return 0.8660254037844386;
    case 5 * 8 + 1: return 0.9510565162951535;
    case 5 * 8 + 2: return 0.5877852522924731;
    case 7 * 8 + 1: return 0.7818314824680298;
    case 7 * 8 + 2: return 0.9749279121818236;
    case 7 * 8 + 3: return 0.4338837391175581;
    case 11 * 8 + 1: return 0.5406408174555976;
    case 11 * 8 + 2: return 0.9096319953545183;
    case 11 * 8 + 3: return 0.9898214418809327;
    case 11 * 8 + 4: return 0.7557495743542583;
    case 11 * 8 + 5: return 0.28173255684142967;
    case 13 * 8 + 1: return 0.46472317204376856;
    case 13 * 8 + 2: return 0.8229838658936564;
    case 13 * 8 + 3: return 0.992708874098054;
    case 13 * 8 + 4: return 0.9350162426854148;
    case 13 * 8 + 5: return 0.6631226582407952;
    default: return 0.23931566428755777;
  }
}

template <class R>
__device__ __forceinline__ void dft2(Complex<R>& a, Complex<R>& b) {
  const Complex<R> sum = a + b;
  b = a - b;
  a = sum;
}

template <class R>
__device__ __forceinline__ void dft4(Complex<R>& a, Complex<R>& b, Complex<R>& c, Complex<R>& d) {
  const Complex<R> ac = a + c;
  const Complex<R> ac_minus = a - c;
  const Complex<R> bd = b + d;
  const Complex<R> bd_minus = times_minus_i(b - d);
  a = ac + bd;
  b = ac_minus + bd_minus;
  c = ac - bd;
  d = ac_minus - bd_minus;
}

// kR is an odd prime.
template <int kR>
struct Dft {
  template <class R>
  static __device__ __forceinline__ void run(Complex<R> (&v)[kR]) {
    constexpr int kHalf = kR / 2;
    Complex<R> sums[kHalf];
    Complex<R> differences[kHalf];
    Complex<R> all = v[0];
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      sums[j] = v[j + 1] + v[kR - 1 - j];
      differences[j] = v[j + 1] - v[kR - 1 - j];
      all = all + sums[j];
    }
#pragma unroll
    for (int k = 1; k <= kHalf; ++k) {
      Complex<R> even = v[0];
      Complex<R> odd = {R(0), R(0)};
#pragma unroll
      for (int j = 1; j <= kHalf; ++j) {
        const int turn = j * k % kR;
        const int folded = turn <= kHalf ? turn : kR - turn;
        const R cosine = static_cast<R>(prime_cos(folded, kR));
        const R sine = static_cast<R>(turn <= kHalf ? prime_sin(folded, kR)  //
                                                    : -prime_sin(folded, kR));
        even.re += cosine * sums[j - 1].re;
        even.im += cosine * sums[j - 1].im;
        odd.re += sine * differences[j - 1].re;
        odd.im += sine * differences[j - 1].im;
      }
      odd = times_minus_i(odd);
      v[k] = even + odd;
      v[kR - k] = even - odd;
    }
    v[0] = all;
  }
};

template <>
struct Dft<2> {
  template <class R>
  static __device__ __forceinline__ void run(Complex<R> (&v)[2]) {
    dft2(v[0], v[1]);
  }
};

template <>
struct Dft<4> {
  template <class R>
  static __device__ __forceinline__ void run(Complex<R> (&v)[4]) {
    dft4(v[0], v[1], v[2], v[3]);
  }
};

template <>
struct Dft<8> {
  template <class R>
  static __device__ __forceinline__ void run(Complex<R> (&v)[8]) {
    const R half = static_cast<R>(0.7071067811865476);
    dft4(v[0], v[2], v[4], v[6]);
    dft4(v[1], v[3], v[5], v[7]);
    // Odd outputs times e^(-2 pi i k / 8).
    v[3] = {(v[3].re + v[3].im) * half, (v[3].im - v[3].re) * half};
    v[5] = times_minus_i(v[5]);
    v[7] = {(v[7].im - v[7].re) * half, -(v[7].re + v[7].im) * half};
    Complex<R> out[8];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      out[k] = v[2 * k] + v[2 * k + 1];
      out[k + 4] = v[2 * k] - v[2 * k + 1];
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = out[k];
  }
};

template <>
struct Dft<16> {
  template <class R>
  static __device__ __forceinline__ void run(Complex<R> (&v)[16]) {
    const R half = static_cast<R>(0.7071067811865476);
    const R c1 = static_cast<R>(0.9238795325112867);
    const R s1 = static_cast<R>(0.3826834323650898);
#pragma unroll
    for (int j = 0; j < 4; ++j) dft4(v[j], v[j + 4], v[j + 8], v[j + 12]);
    // v[j + 4 k] times e^(-2 pi i j k / 16).
    v[5] = v[5] * Complex<R>{c1, -s1};
    v[6] = {(v[6].re + v[6].im) * half, (v[6].im - v[6].re) * half};
    v[7] = v[7] * Complex<R>{s1, -c1};
    v[9] = {(v[9].re + v[9].im) * half, (v[9].im - v[9].re) * half};
    v[10] = times_minus_i(v[10]);
    v[11] = {(v[11].im - v[11].re) * half, -(v[11].re + v[11].im) * half};
    v[13] = v[13] * Complex<R>{s1, -c1};
    v[14] = {(v[14].im - v[14].re) * half, -(v[14].re + v[14].im) * half};
    v[15] = v[15] * Complex<R>{-c1, s1};
    Complex<R> out[16];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      dft4(v[4 * k], v[4 * k + 1], v[4 * k + 2], v[4 * k + 3]);
#pragma unroll
      for (int j = 0; j < 4; ++j) out[k + 4 * j] = v[4 * k + j];
    }
#pragma unroll
    for (int k = 0; k < 16; ++k) v[k] = out[k];
  }
};

template <>
struct Dft<9> {
  template <class R>
  static __device__ __forceinline__ void run(Complex<R> (&v)[9]) {
    Complex<R> rows[3][3];
#pragma unroll
    for (int j = 0; j < 3; ++j) {
      Complex<R> column[3] = {v[j], v[j + 3], v[j + 6]};
      Dft<3>::run(column);
#pragma unroll
      for (int k = 0; k < 3; ++k) rows[k][j] = column[k];
    }
    const Complex<R> w1 = {static_cast<R>(0.766044443118978), static_cast<R>(-0.6427876096865393)};
    const Complex<R> w2 = {static_cast<R>(0.17364817766693036), static_cast<R>(-0.984807753012208)};
    const Complex<R> w4 = {static_cast<R>(-0.9396926207859083),
                           static_cast<R>(-0.3420201433256687)};
    rows[1][1] = rows[1][1] * w1;
    rows[1][2] = rows[1][2] * w2;
    rows[2][1] = rows[2][1] * w2;
    rows[2][2] = rows[2][2] * w4;
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      Dft<3>::run(rows[k]);
#pragma unroll
      for (int j = 0; j < 3; ++j) v[k + 3 * j] = rows[k][j];
    }
  }
};

// x with a x = 1 modulo b, for coprimes.
__device__ constexpr int modular_inverse(int a, int b) {
  int x = 1;
  while (a * x % b != 1 % b) ++x;
  return x;
}

// By the Chinese remainder theorem a DFT of kA kB is one of kA in each of kB columns and one of kB
// in each of kA rows.
template <int kA, int kB>
struct DftCoprime {
  template <class R>
  static __device__ __forceinline__ void run(Complex<R> (&v)[kA * kB]) {
    constexpr int kR = kA * kB;
    constexpr int kToA = kB * modular_inverse(kB, kA);  // 1 modulo kA, 0 modulo kB
    constexpr int kToB = kA * modular_inverse(kA, kB);
    Complex<R> rows[kA][kB];
#pragma unroll
    for (int j = 0; j < kB; ++j) {
      Complex<R> column[kA];
#pragma unroll
      for (int i = 0; i < kA; ++i) column[i] = v[(kB * i + kA * j) % kR];
      Dft<kA>::run(column);
#pragma unroll
      for (int i = 0; i < kA; ++i) rows[i][j] = column[i];
    }
#pragma unroll
    for (int i = 0; i < kA; ++i) {
      Dft<kB>::run(rows[i]);
#pragma unroll
      for (int j = 0; j < kB; ++j) v[(kToA * i + kToB * j) % kR] = rows[i][j];
    }
  }
};

template <>
struct Dft<6> : DftCoprime<2, 3> {};
template <>
struct Dft<10> : DftCoprime<2, 5> {};
template <>
struct Dft<12> : DftCoprime<4, 3> {};
template <>
struct Dft<14> : DftCoprime<2, 7> {};
template <>
struct Dft<15> : DftCoprime<3, 5> {};

}  // namespace gpk
