// Comparisons, selections and conversions. A part of alu_kernels.h.

// --- comparisons --------------------------------------------------------------------------------
template <Compare kCompare>
struct Relation {
  template <class T>
  static bool run(T a, T b) {
    [[maybe_unused]] const bool nan = a != a || b != b;
    switch (kCompare) {
      case Compare::kEq: return a == b;
      case Compare::kNe: return a != b && !nan;
      case Compare::kLt: return a < b;
      case Compare::kLe: return a <= b;
      case Compare::kGt: return a > b;
      case Compare::kGe: return a >= b;
      case Compare::kEqu: return !(a < b || a > b);
      case Compare::kNeu: return a != b;
      case Compare::kLtu: return !(a >= b);
      case Compare::kLeu: return !(a > b);
      case Compare::kGtu: return !(a <= b);
      case Compare::kGeu: return !(a < b);
      case Compare::kNum: return !nan;
      case Compare::kNan: return nan;
    }
    return false;
  }
};
struct SameBits {
  template <class T>
  static T of(T x) {
    return x;
  }
};
struct Flushed {
  template <class T>
  static T of(T x) {
    return flush(x);
  }
};
struct WideHalf {
  static float of(uint16_t x) { return float_of_half(x); }
};
struct WideBf16 {
  static float of(uint16_t x) { return float_of_bf16(x); }
};

template <Compare kCompare, class T, class In>
GPK_NOINLINE void compare(const Op& op, Warp& warp, uint32_t mask) {
  const T* a = warp.source<T>(op.a);
  const T* b = warp.source<T>(op.b);
  uint32_t result = 0;
  if constexpr (sizeof(T) == 4) {
    GPK_LANES for (unsigned i = 0; i < kLanes; ++i) result |=
        static_cast<uint32_t>(Relation<kCompare>::run(In::of(a[i]), In::of(b[i]))) << i;
  } else {
    uint32_t bits[kLanes];
    GPK_LANES for (unsigned i = 0; i < kLanes; ++i) bits[i] =
        static_cast<uint32_t>(Relation<kCompare>::run(In::of(a[i]), In::of(b[i])));
    GPK_LANES for (unsigned i = 0; i < kLanes; ++i) result |= bits[i] << i;
  }
  finish_compare(op, warp, mask, result);
}

template <class T, class In>
Handler compare_of(Compare compare_now) {
  switch (compare_now) {
    case Compare::kEq: return compare<Compare::kEq, T, In>;
    case Compare::kNe: return compare<Compare::kNe, T, In>;
    case Compare::kLt: return compare<Compare::kLt, T, In>;
    case Compare::kLe: return compare<Compare::kLe, T, In>;
    case Compare::kGt: return compare<Compare::kGt, T, In>;
    case Compare::kGe: return compare<Compare::kGe, T, In>;
    default: break;
  }
  if constexpr (std::is_floating_point_v<T> || !std::is_same_v<In, SameBits>) {
    switch (compare_now) {
      case Compare::kEqu: return compare<Compare::kEqu, T, In>;
      case Compare::kNeu: return compare<Compare::kNeu, T, In>;
      case Compare::kLtu: return compare<Compare::kLtu, T, In>;
      case Compare::kLeu: return compare<Compare::kLeu, T, In>;
      case Compare::kGtu: return compare<Compare::kGtu, T, In>;
      case Compare::kGeu: return compare<Compare::kGeu, T, In>;
      case Compare::kNum: return compare<Compare::kNum, T, In>;
      case Compare::kNan: return compare<Compare::kNan, T, In>;
      default: break;
    }
  }
  return nullptr;
}

Handler compare_handler(Compare compare_now, Type type, bool ftz) {
  switch (type) {
    case Type::kB16:
    case Type::kU16: return compare_of<uint16_t, SameBits>(compare_now);
    case Type::kS16: return compare_of<int16_t, SameBits>(compare_now);
    case Type::kB32:
    case Type::kU32: return compare_of<uint32_t, SameBits>(compare_now);
    case Type::kS32: return compare_of<int32_t, SameBits>(compare_now);
    case Type::kB64:
    case Type::kU64: return compare_of<uint64_t, SameBits>(compare_now);
    case Type::kS64: return compare_of<int64_t, SameBits>(compare_now);
    case Type::kF32:
      return ftz ? compare_of<float, Flushed>(compare_now)
                 : compare_of<float, SameBits>(compare_now);
    case Type::kF64: return compare_of<double, SameBits>(compare_now);
    case Type::kF16: return compare_of<uint16_t, WideHalf>(compare_now);
    case Type::kBf16: return compare_of<uint16_t, WideBf16>(compare_now);
    default: return nullptr;
  }
}

template <class T>
GPK_NOINLINE void select(const Op& op, Warp& warp, uint32_t mask) {
  T* dst = warp.cell<T>(op.dst);
  const T* a = warp.source<T>(op.a);
  const T* b = warp.source<T>(op.b);
  const uint32_t pick = warp.predicate(op.c) ^ (op.flags != 0 ? kFull : 0);
  GPK_LANES for (unsigned i = 0; i < kLanes; ++i) {
    const T result = (pick >> i & 1) != 0 ? a[i] : b[i];
    dst[i] = (mask >> i & 1) != 0 ? result : dst[i];
  }
}

Handler select_handler(unsigned bytes) {
  switch (bytes) {
    case 2: return select<uint16_t>;
    case 4: return select<uint32_t>;
    case 8: return select<uint64_t>;
    default: return nullptr;
  }
}

// --- conversions --------------------------------------------------------------------------------
template <class D>
struct Resize : Cheap {
  template <class S>
  static D run(S a) {
    return static_cast<D>(a);
  }
};
template <class D>
struct FromInteger : Cheap {
  template <class S>
  static D run(S a) {
    return static_cast<D>(a);
  }
};
struct ToHalf : Cheap {
  static uint16_t run(float a) { return half_of_float(a); }
};
struct ToBf16 : Cheap {
  static uint16_t run(float a) { return bf16_of_float(a); }
};
struct FromHalf : Cheap {
  static float run(uint16_t a) {
    const float x = float_of_half(a);
    return canonical(x);
  }
};
struct FromBf16 : Cheap {
  static float run(uint16_t a) { return float_of_bf16(a); }
};
template <class T, unsigned kMode>
inline T integral(T x) {
  switch (static_cast<Rounding>(kMode)) {
    case Rounding::kZero: return std::trunc(x);
    case Rounding::kDown: return std::floor(x);
    case Rounding::kUp: return std::ceil(x);
    default: return std::nearbyint(x);
  }
}
template <class I, unsigned kMode>
struct ToInteger : Cheap {
  template <class T>
  static I run(T a) {
    const T x = integral<T, kMode>(a);
    constexpr T kLow = static_cast<T>(std::numeric_limits<I>::min());
    constexpr T kHigh = static_cast<T>(std::numeric_limits<I>::max());  // may round up
    constexpr bool kZeroNan = sizeof(T) == 4 && sizeof(I) < 8;
    constexpr I kNan = kZeroNan ? I{0} : static_cast<I>(Unsigned<I>{1} << (sizeof(I) * 8 - 1));
    if (a != a) return kNan;
    if (x <= kLow) return std::numeric_limits<I>::min();
    if (x >= kHigh) return std::numeric_limits<I>::max();
    return static_cast<I>(x);
  }
};
template <unsigned kMode>
struct ToIntegral : Cheap {
  template <class T>
  static T run(T a) {
    return canonical(integral<T, kMode>(a));
  }
};

template <class D, class S>
Handler resize_handler() {
  return map1<Resize<D>, D, S>;
}
template <class S>
Handler resize_from(Type to) {
  switch (bytes_of(to)) {
    case 2: return map1<Resize<uint16_t>, uint16_t, S>;
    case 4: return map1<Resize<uint32_t>, uint32_t, S>;
    case 8: return map1<Resize<uint64_t>, uint64_t, S>;
    default: return nullptr;
  }
}
template <class D>
Handler float_from(Type from, Rounding rounding) {
  switch (from) {
    case Type::kU16: return map1<FromInteger<D>, D, uint16_t>;
    case Type::kS16: return map1<FromInteger<D>, D, int16_t>;
    case Type::kU32: return with_rounding<map1<FromInteger<D>, D, uint32_t>>(rounding);
    case Type::kS32: return with_rounding<map1<FromInteger<D>, D, int32_t>>(rounding);
    case Type::kU64: return with_rounding<map1<FromInteger<D>, D, uint64_t>>(rounding);
    case Type::kS64: return with_rounding<map1<FromInteger<D>, D, int64_t>>(rounding);
    default: return nullptr;
  }
}
template <class F, unsigned kMode>
Handler integer_from(Type to) {
  switch (to) {
    case Type::kU32: return map1<ToInteger<uint32_t, kMode>, uint32_t, F>;
    case Type::kS32: return map1<ToInteger<int32_t, kMode>, int32_t, F>;
    case Type::kU64: return map1<ToInteger<uint64_t, kMode>, uint64_t, F>;
    case Type::kS64: return map1<ToInteger<int64_t, kMode>, int64_t, F>;
    default: return nullptr;
  }
}
template <class F>
Handler integer_from_rounded(Type to, unsigned rounding) {
  switch (rounding) {
    case 0: return integer_from<F, 0>(to);
    case 1: return integer_from<F, 1>(to);
    case 2: return integer_from<F, 2>(to);
    default: return integer_from<F, 3>(to);
  }
}
template <class F>
Handler integral_handler(unsigned rounding) {
  switch (rounding) {
    case 0: return map1<ToIntegral<0>, F, F>;
    case 1: return map1<ToIntegral<1>, F, F>;
    case 2: return map1<ToIntegral<2>, F, F>;
    default: return map1<ToIntegral<3>, F, F>;
  }
}
struct Widen : Cheap {
  static double run(float a) { return canonical(static_cast<double>(a)); }
};
struct Shorten : Cheap {
  // A NaN keeps its sign and the upper bits of its payload, as on a device.
  static float run(double a) { return static_cast<float>(a); }
};

Handler fast_convert_handler(Type to, Type from, unsigned mode, unsigned flags) {
  if (is_integer(to) && is_integer(from) && flags == 0) {
    switch (from) {
      case Type::kU16:
      case Type::kB16: return resize_from<uint16_t>(to);
      case Type::kS16: return resize_from<int16_t>(to);
      case Type::kU32:
      case Type::kB32: return resize_from<uint32_t>(to);
      case Type::kS32: return resize_from<int32_t>(to);
      case Type::kU64:
      case Type::kB64: return resize_from<uint64_t>(to);
      case Type::kS64: return resize_from<int64_t>(to);
      default: return nullptr;
    }
  }
  if (flags == kConvertSat && to == Type::kF32 && from == Type::kF32 && mode == 0)
    return map1<Float<Identity, kSat>, float, float>;
  if (flags != 0) return nullptr;
  const unsigned rounding = mode & 7;
  if ((mode & kToInteger) != 0) {
    if (from == Type::kF32) return integer_from_rounded<float>(to, rounding);
    if (from == Type::kF64) return integer_from_rounded<double>(to, rounding);
    return nullptr;
  }
  if ((mode & kToIntegral) != 0) {
    if (from == Type::kF32 && to == from) return integral_handler<float>(rounding);
    if (from == Type::kF64 && to == from) return integral_handler<double>(rounding);
    return nullptr;
  }
  const auto round = static_cast<Rounding>(rounding);
  if (is_integer(from) && to == Type::kF32) return float_from<float>(from, round);
  if (is_integer(from) && to == Type::kF64) return float_from<double>(from, round);
  if (from == Type::kF32 && to == Type::kF64) return map1<Widen, double, float>;
  if (from == Type::kF64 && to == Type::kF32)
    return with_rounding<map1<Shorten, float, double>>(round);
  if (from == Type::kF16 && to == Type::kF32) return map1<FromHalf, float, uint16_t>;
  if (from == Type::kBf16 && to == Type::kF32) return map1<FromBf16, float, uint16_t>;
  if (round != Rounding::kNearestEven) return nullptr;
  if (from == Type::kF32 && to == Type::kF16) return map1<ToHalf, uint16_t, float>;
  if (from == Type::kF32 && to == Type::kBf16) return map1<ToBf16, uint16_t, float>;
  return nullptr;
}
