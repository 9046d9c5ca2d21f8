// Floating-point functors. A part of alu_kernels.h.

// --- floats -------------------------------------------------------------------------------------
template <class T>
inline T flush(T x) {
  if constexpr (std::is_same_v<T, float>)
    return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
  return x;
}
template <class T>
inline T saturate(T x) {
  return x > T{0} ? (x < T{1} ? x : T{1}) : T{0};
}
// A device's NaN from arithmetic; hosts keep payloads.
template <class T>
inline T canonical(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return x != x ? std::bit_cast<float>(0x7fffffffu) : x;
  } else {
    return x != x ? std::bit_cast<T>(uint64_t{0x7ff8000000000000}) : x;
  }
}
template <class F, unsigned kFlags>
struct Float : F {
  template <class T>
  static T in(T x) {
    return (kFlags & kFtz) != 0 ? flush(x) : x;
  }
  template <class T>
  static T out(T x) {
    x = canonical(x);
    if constexpr ((kFlags & kFtz) != 0) x = flush(x);
    if constexpr ((kFlags & kSat) != 0) x = saturate(x);
    return x;
  }
  template <class T>
  static T run(T a) {
    return out(F::of(in(a)));
  }
  template <class T>
  static T run(T a, T b) {
    return out(F::of(in(a), in(b)));
  }
  template <class T>
  static T run(T a, T b, T c) {
    return out(F::of(in(a), in(b), in(c)));
  }
};
struct Identity : Cheap {
  template <class T>
  static T of(T a) {
    return a;
  }
};
struct FAdd : Cheap {
  template <class T>
  static T of(T a, T b) {
    return a + b;
  }
};
struct FSub : Cheap {
  template <class T>
  static T of(T a, T b) {
    return a - b;
  }
};
struct FMul : Cheap {
  template <class T>
  static T of(T a, T b) {
    return a * b;
  }
};
struct FFma : Cheap {
  template <class T>
  static T of(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
struct FDiv : Cheap {
  template <class T>
  static T of(T a, T b) {
    return a / b;
  }
};
struct FRcp : Cheap {
  template <class T>
  static T of(T a) {
    return T{1} / a;
  }
};
struct FSqrt : Cheap {
  template <class T>
  static T of(T a) {
    return std::sqrt(a);
  }
};
struct FRsqrt : Cheap {
  template <class T>
  static T of(T a) {
    return T{1} / std::sqrt(a);
  }
};
struct FSin : Costly {
  template <class T>
  static T of(T a) {
    return std::sin(a);
  }
};
struct FCos : Costly {
  template <class T>
  static T of(T a) {
    return std::cos(a);
  }
};
struct FLg2 : Costly {
  template <class T>
  static T of(T a) {
    return std::log2(a);
  }
};
struct FEx2 : Costly {
  template <class T>
  static T of(T a) {
    return std::exp2(a);
  }
};
struct FTanh : Costly {
  template <class T>
  static T of(T a) {
    return std::tanh(a);
  }
};
// Sign, exponent and the top 20 bits of the mantissa, as the device's coarse approximations.
inline double coarse(double x) {
  x = canonical(x);
  return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & 0xffffffff00000000u);
}
inline double flush64(double x) { return std::fabs(x) < 0x1p-1022 ? std::copysign(0.0, x) : x; }
struct RcpCoarse : Cheap {
  static double run(double a) { return flush64(coarse(1.0 / flush64(a))); }
};
struct RsqrtCoarse : Cheap {
  static double run(double a) { return coarse(1.0 / std::sqrt(flush64(a))); }
};
template <unsigned kFlags>
struct FAbs : Cheap {
  template <class T>
  static T run(T a) {
    return (kFlags & kFtz) != 0 ? std::fabs(flush(a)) : std::fabs(a);
  }
};
template <unsigned kFlags>
struct FNeg : Cheap {
  template <class T>
  static T run(T a) {
    return (kFlags & kFtz) != 0 ? -flush(a) : -a;
  }
};
struct FMin : Cheap {
  template <class T>
  static T of(T a, T b) {
    const T low = a < b || (a == b && std::signbit(a)) ? a : b;
    return a != a ? b : b != b ? a : low;
  }
};
struct FMax : Cheap {
  template <class T>
  static T of(T a, T b) {
    const T high = a > b || (a == b && !std::signbit(a)) ? a : b;
    return a != a ? b : b != b ? a : high;
  }
};
struct FMinNan : Cheap {
  template <class T>
  static T of(T a, T b) {
    return a != a ? a : b != b ? b : FMin::of(a, b);
  }
};
struct FMaxNan : Cheap {
  template <class T>
  static T of(T a, T b) {
    return a != a ? a : b != b ? b : FMax::of(a, b);
  }
};
template <class F>
struct Xorsign : Costly {
  template <class T>
  static T of(T a, T b) {
    const bool negative = std::signbit(a) != std::signbit(b);
    return std::copysign(F::of(std::fabs(a), std::fabs(b)), negative ? T{-1} : T{1});
  }
};
struct FMin3 : Cheap {
  template <class T>
  static T of(T a, T b, T c) {
    return FMin::of(FMin::of(a, b), c);
  }
};
struct FMax3 : Cheap {
  template <class T>
  static T of(T a, T b, T c) {
    return FMax::of(FMax::of(a, b), c);
  }
};
// copysign: the sign of a, the magnitude of b.
struct Copysign : Cheap {
  template <class T>
  static T run(T a, T b) {
    return std::copysign(b, a);
  }
};
template <class T>
struct SlctOn {
  template <class V>
  static V run(V a, V b, T c) {
    return c >= T{0} ? a : b;
  }
  static constexpr bool kCheap = true;
};

// Halves: computed in float (in double for fma) and rounded once.
struct HalfTraits {
  static float wide(uint16_t x) { return float_of_half(x); }
  static uint16_t narrow(float x) { return half_of_float(x); }
  static constexpr Format kFormat = kFormatF16;
  static constexpr uint16_t kOne = 0x3c00, kInfinity = 0x7c00;
};
struct Bf16Traits {
  static float wide(uint16_t x) { return float_of_bf16(x); }
  static uint16_t narrow(float x) { return bf16_of_float(x); }
  static constexpr Format kFormat = kFormatBf16;
  static constexpr uint16_t kOne = 0x3f80, kInfinity = 0x7f80;
};
template <class N, class F, unsigned kFlags>
struct Narrow : Costly {
  static uint16_t in(uint16_t x) {
    return (kFlags & kFtz) != 0 && (x & N::kInfinity) == 0 ? x & 0x8000 : x;
  }
  static uint16_t out(uint16_t x) {
    x = in(x);
    if ((kFlags & kSat) != 0) {
      if ((x & 0x7fff) > N::kInfinity || (x & 0x8000) != 0) return 0;
      if (x > N::kOne) return N::kOne;
    }
    return x;
  }
  static uint16_t run(uint16_t a) { return out(N::narrow(F::of(N::wide(in(a))))); }
  static uint16_t run(uint16_t a, uint16_t b) {
    return out(N::narrow(F::of(N::wide(in(a)), N::wide(in(b)))));
  }
  static uint16_t run(uint16_t a, uint16_t b, uint16_t c) {
    if constexpr (std::is_same_v<F, FFma>) {
      const double product = static_cast<double>(N::wide(in(a))) * N::wide(in(b));
      const double addend = N::wide(in(c));
      double sum = product + addend;
      // Round to odd: what the sum lost must not turn into a tie.
      if (std::isfinite(sum)) {
        const double other = sum - product;
        const double lost = (product - (sum - other)) + (addend - other);
        uint64_t bits = std::bit_cast<uint64_t>(sum);
        if (lost != 0 && (bits & 1) == 0) {
          const bool away = (lost > 0) == (sum > 0);
          bits = away ? bits | 1 : bits - 1;
          sum = std::bit_cast<double>(bits);
        }
      }
      return out(static_cast<uint16_t>(round_to(N::kFormat, sum, Rounding::kNearestEven, false)));
    } else {
      return out(N::narrow(F::of(N::wide(in(a)), N::wide(in(b)), N::wide(in(c)))));
    }
  }
};
template <class N, class F, unsigned kFlags>
struct NarrowRelu : Costly {
  static uint16_t run(uint16_t a, uint16_t b, uint16_t c) {
    const uint16_t x = Narrow<N, F, kFlags>::run(a, b, c);
    return (x & 0x7fff) > N::kInfinity ? 0x7fff : (x & 0x8000) != 0 ? 0 : x;
  }
};
// Sign operations keep NaN payloads.
struct NarrowNeg : Cheap {
  static uint16_t run(uint16_t a) { return a ^ 0x8000; }
};
struct NarrowAbs : Cheap {
  static uint16_t run(uint16_t a) { return a & 0x7fff; }
};
template <class F>
struct Packed : Costly {
  static uint16_t low(uint32_t x) { return static_cast<uint16_t>(x); }
  static uint16_t high(uint32_t x) { return static_cast<uint16_t>(x >> 16); }
  static uint32_t pack(uint16_t l, uint16_t h) { return static_cast<uint32_t>(h) << 16 | l; }
  static uint32_t run(uint32_t a) { return pack(F::run(low(a)), F::run(high(a))); }
  static uint32_t run(uint32_t a, uint32_t b) {
    return pack(F::run(low(a), low(b)), F::run(high(a), high(b)));
  }
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c) {
    return pack(F::run(low(a), low(b), low(c)), F::run(high(a), high(b), high(c)));
  }
};
struct Tanh32 : Costly {
  template <class T>
  static T of(T a) {
    return std::tanh(a);
  }
};
