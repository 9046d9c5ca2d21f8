// Integer functors. A part of alu_kernels.h.

// --- integers -----------------------------------------------------------------------------------
template <class T>
using Unsigned = std::make_unsigned_t<T>;
template <class T>
using Promoted = std::conditional_t<sizeof(T) < 4, uint32_t, Unsigned<T>>;

struct Move : Cheap {
  template <class T>
  static T run(T a) {
    return a;
  }
};
struct Not : Cheap {
  template <class T>
  static T run(T a) {
    return static_cast<T>(~a);
  }
};
struct Cnot : Cheap {
  template <class T>
  static T run(T a) {
    return a == 0 ? 1 : 0;
  }
};
struct Neg : Cheap {
  template <class T>
  static T run(T a) {
    return static_cast<T>(Promoted<T>{0} - static_cast<Promoted<T>>(a));
  }
};
struct Abs : Cheap {
  template <class T>
  static T run(T a) {
    return a < 0 ? Neg::run(a) : a;
  }
};
struct Clz : Costly {
  template <class T>
  static uint32_t run(T a) {
    return static_cast<uint32_t>(std::countl_zero(static_cast<Unsigned<T>>(a)));
  }
};
struct Popc : Costly {
  template <class T>
  static uint32_t run(T a) {
    return static_cast<uint32_t>(std::popcount(static_cast<Unsigned<T>>(a)));
  }
};
struct Brev : Costly {
  template <class T>
  static T run(T a) {
    T result = 0;
    for (unsigned i = 0; i < sizeof(T) * 8; ++i)
      result = static_cast<T>(result << 1 | (a >> i & 1));
    return result;
  }
};
template <bool kShift>
struct Bfind : Costly {
  template <class T>
  static uint32_t run(T a) {
    Unsigned<T> bits = static_cast<Unsigned<T>>(a);
    if (std::is_signed_v<T> && a < 0) bits = ~bits;
    if (bits == 0) return kFull;
    const int lead = std::countl_zero(bits);
    return static_cast<uint32_t>(kShift ? lead : static_cast<int>(sizeof(T) * 8) - 1 - lead);
  }
};

struct Add : Cheap {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Promoted<T>>(a) + static_cast<Promoted<T>>(b));
  }
};
struct Sub : Cheap {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Promoted<T>>(a) - static_cast<Promoted<T>>(b));
  }
};
struct Mul : Cheap {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<Promoted<T>>(a) * static_cast<Promoted<T>>(b));
  }
};
template <class T>
struct WiderOf {
  using type = __int128;
};
template <>
struct WiderOf<uint64_t> {
  using type = unsigned __int128;
};
template <>
struct WiderOf<uint32_t> {
  using type = uint64_t;
};
template <>
struct WiderOf<int32_t> {
  using type = int64_t;
};
template <>
struct WiderOf<uint16_t> {
  using type = uint32_t;
};
template <>
struct WiderOf<int16_t> {
  using type = int32_t;
};
struct MulHi : Cheap {
  template <class T>
  static T run(T a, T b) {
    using W = typename WiderOf<T>::type;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b) >> (sizeof(T) * 8));
  }
};
struct MulWide : Cheap {
  template <class T>
  static typename WiderOf<T>::type run(T a, T b) {
    using W = typename WiderOf<T>::type;
    return static_cast<W>(a) * static_cast<W>(b);
  }
};
struct Mul24 : Cheap {
  template <class T>
  static T run(T a, T b) {
    const auto cut = [](T x) {
      return static_cast<T>(static_cast<T>(static_cast<uint32_t>(x) << 8) >> 8);
    };
    return Mul::run<T>(cut(a), cut(b));
  }
};
struct Div : Costly {
  template <class T>
  static T run(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return Neg::run(a);
    return static_cast<T>(a / b);
  }
};
struct Rem : Costly {
  template <class T>
  static T run(T a, T b) {
    if (b == 0) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
    return static_cast<T>(a % b);
  }
};
struct Min : Cheap {
  template <class T>
  static T run(T a, T b) {
    return a < b ? a : b;
  }
};
struct Max : Cheap {
  template <class T>
  static T run(T a, T b) {
    return a > b ? a : b;
  }
};
struct And : Cheap {
  template <class T>
  static T run(T a, T b) {
    return a & b;
  }
};
struct Or : Cheap {
  template <class T>
  static T run(T a, T b) {
    return a | b;
  }
};
struct Xor : Cheap {
  template <class T>
  static T run(T a, T b) {
    return a ^ b;
  }
};
struct Shl : Cheap {
  template <class T>
  static T run(T a, uint32_t b) {
    const auto n = b & (sizeof(T) * 8 - 1);
    const T r = static_cast<T>(static_cast<Unsigned<T>>(a) << n);
    return b >= sizeof(T) * 8 ? T{0} : r;
  }
};
struct Shr : Cheap {
  template <class T>
  static T run(T a, uint32_t b) {
    const auto last = static_cast<uint32_t>(sizeof(T) * 8 - 1);
    const T r = static_cast<T>(a >> (b > last ? last : b));
    return !std::is_signed_v<T> && b > last ? T{0} : r;
  }
};
struct AddSat : Cheap {
  static int32_t run(int32_t a, int32_t b) {
    const int64_t s = int64_t{a} + b;
    return static_cast<int32_t>(s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s);
  }
};
struct SubSat : Cheap {
  static int32_t run(int32_t a, int32_t b) {
    const int64_t s = int64_t{a} - b;
    return static_cast<int32_t>(s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s);
  }
};

struct Mad : Cheap {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run<T>(Mul::run<T>(a, b), c);
  }
};
struct MadHi : Cheap {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run<T>(MulHi::run<T>(a, b), c);
  }
};
struct MadHiSat : Cheap {
  static int32_t run(int32_t a, int32_t b, int32_t c) {
    return AddSat::run(MulHi::run<int32_t>(a, b), c);
  }
};
struct MadWide : Cheap {
  template <class T, class W>
  static W run(T a, T b, W c) {
    return static_cast<W>(static_cast<Unsigned<W>>(static_cast<W>(MulWide::run<T>(a, b))) +
                          static_cast<Unsigned<W>>(c));
  }
};
struct Sad : Cheap {
  template <class T>
  static T run(T a, T b, T c) {
    return Add::run<T>(c, a < b ? Sub::run<T>(b, a) : Sub::run<T>(a, b));
  }
};
struct Bfe : Costly {
  template <class T>
  static T run(T a, uint32_t position, uint32_t length) {
    constexpr uint32_t kBits = sizeof(T) * 8;
    const uint32_t pos = position & 0xff;
    const uint32_t len = length & 0xff;
    const Unsigned<T> bits = static_cast<Unsigned<T>>(a);
    Unsigned<T> field = pos >= kBits ? 0 : bits >> pos;
    if (len < kBits) field &= (Unsigned<T>{1} << len) - 1;
    if (std::is_signed_v<T> && len != 0) {
      const uint32_t top = pos + len - 1 < kBits - 1 ? pos + len - 1 : kBits - 1;
      if ((bits >> top & 1) != 0 && len < kBits) {
        const uint32_t have = len;
        field |= ~Unsigned<T>{0} << have;
        if (pos + len > kBits && pos < kBits) field |= ~Unsigned<T>{0} << (kBits - pos);
        if (pos >= kBits) field = ~Unsigned<T>{0};
      } else if ((bits >> top & 1) != 0) {
        field = pos == 0       ? bits
                : pos >= kBits ? ~Unsigned<T>{0}
                               : field | ~Unsigned<T>{0} << (kBits - pos);
      }
    }
    return static_cast<T>(field);
  }
};
template <class T>
GPK_NOINLINE void bfi(const Op& op, Warp& warp, uint32_t mask) {
  T* dst = warp.cell<T>(op.dst);
  const T* a = warp.source<T>(op.a);
  const T* b = warp.source<T>(op.b);
  const uint32_t* position = warp.source<uint32_t>(op.c);
  const uint32_t* length = warp.source<uint32_t>(static_cast<Cell>(op.args));
  constexpr uint32_t kBits = sizeof(T) * 8;
  GPK_LANES for (unsigned i = 0; i < kLanes; ++i) {
    const uint32_t pos = position[i] & 0xff;
    const uint32_t len = length[i] & 0xff;
    const T ones = len >= kBits ? ~T{0} : (T{1} << (len & (kBits - 1))) - 1;
    const T field = pos >= kBits ? T{0} : ones << (pos & (kBits - 1));
    const T moved = pos >= kBits ? T{0} : a[i] << (pos & (kBits - 1));
    const T result = (b[i] & ~field) | (moved & field);
    dst[i] = (mask >> i & 1) != 0 ? result : dst[i];
  }
}
struct Lop3 : Cheap {
  static uint32_t run(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (unsigned k = 0; k < 8; ++k) {
      const uint32_t on = 0u - (table >> k & 1);
      result |= on & ((k & 4) != 0 ? a : ~a) & ((k & 2) != 0 ? b : ~b) & ((k & 1) != 0 ? c : ~c);
    }
    return result;
  }
};
inline GPK_NOINLINE void lop3(const Op& op, Warp& warp, uint32_t mask) {
  uint32_t* dst = warp.cell<uint32_t>(op.dst);
  const uint32_t* a = warp.source<uint32_t>(op.a);
  const uint32_t* b = warp.source<uint32_t>(op.b);
  const uint32_t* c = warp.source<uint32_t>(op.c);
  const auto table = static_cast<uint32_t>(op.imm);
  GPK_LANES for (unsigned i = 0; i < kLanes; ++i) {
    const uint32_t result = Lop3::run(a[i], b[i], c[i], table);
    dst[i] = (mask >> i & 1) != 0 ? result : dst[i];
  }
}
inline uint32_t permute_bytes(uint64_t pool, uint32_t selector) {
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t pick = selector >> (4 * i) & 0xf;
    uint32_t byte = static_cast<uint32_t>(pool >> (8 * (pick & 7)) & 0xff);
    if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}
inline GPK_NOINLINE void prmt(const Op& op, Warp& warp, uint32_t mask) {
  uint32_t* dst = warp.cell<uint32_t>(op.dst);
  const uint32_t* a = warp.source<uint32_t>(op.a);
  const uint32_t* b = warp.source<uint32_t>(op.b);
  const uint32_t* c = warp.source<uint32_t>(op.c);
  static constexpr uint32_t kModes[7][4] = {
      {0, 0, 0, 0},
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
  };
  for_lanes(mask, [&](unsigned i) {
    const uint64_t pool = static_cast<uint64_t>(b[i]) << 32 | a[i];
    const uint32_t selector = op.mode == 0 ? c[i] : kModes[op.mode][c[i] & 3];
    dst[i] = permute_bytes(pool, selector);
  });
}
template <bool kLeft, bool kClamp>
struct Shf : Cheap {
  static uint32_t run(uint32_t low, uint32_t high, uint32_t shift) {
    const uint32_t n = kClamp ? (shift < 32 ? shift : 32) : shift & 31;
    const uint64_t pool = static_cast<uint64_t>(high) << 32 | low;
    return static_cast<uint32_t>(kLeft ? (pool << n) >> 32 : pool >> n);
  }
};
inline int32_t dot_bytes(uint32_t a, uint32_t b, int32_t c, bool a_signed, bool b_signed) {
  auto sum = static_cast<uint32_t>(c);
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t x = a >> (8 * i) & 0xff;
    const uint32_t y = b >> (8 * i) & 0xff;
    const int32_t p = a_signed ? static_cast<int8_t>(x) : static_cast<int32_t>(x);
    const int32_t q = b_signed ? static_cast<int8_t>(y) : static_cast<int32_t>(y);
    sum += static_cast<uint32_t>(p * q);
  }
  return static_cast<int32_t>(sum);
}
// mode: 1 a is signed, 2 b is signed. mode2: 0 dp4a, 1 dp2a.lo, 2 dp2a.hi
inline GPK_NOINLINE void dot(const Op& op, Warp& warp, uint32_t mask) {
  uint32_t* dst = warp.cell<uint32_t>(op.dst);
  const uint32_t* a = warp.source<uint32_t>(op.a);
  const uint32_t* b = warp.source<uint32_t>(op.b);
  const uint32_t* c = warp.source<uint32_t>(op.c);
  const bool p = (op.mode & 1) != 0;
  const bool q = (op.mode & 2) != 0;
  for_lanes(mask, [&](unsigned i) {
    if (op.mode2 == 0) {
      dst[i] = static_cast<uint32_t>(dot_bytes(a[i], b[i], static_cast<int32_t>(c[i]), p, q));
      return;
    }
    uint32_t sum = c[i];
    for (unsigned k = 0; k < 2; ++k) {
      const uint32_t x = a[i] >> (16 * k) & 0xffff;
      const uint32_t y = b[i] >> (8 * (k + (op.mode2 == 2 ? 2 : 0))) & 0xff;
      sum += static_cast<uint32_t>(p ? static_cast<int16_t>(x) : static_cast<int32_t>(x)) *
             static_cast<uint32_t>(q ? static_cast<int8_t>(y) : static_cast<int32_t>(y));
    }
    dst[i] = sum;
  });
}

// The flag after a subtraction is 1 where nothing was borrowed, as on the hardware (a + ~b + 1):
// NVRTC's division of 128 bits adds it.
template <class T, Alu kOp>
GPK_NOINLINE void carry(const Op& op, Warp& warp, uint32_t mask) {
  using W = typename WiderOf<T>::type;
  T* dst = warp.cell<T>(op.dst);
  const T* a = warp.source<T>(op.a);
  const T* b = warp.source<T>(op.b);
  const T* c = kOp == Alu::kMadLoCarry || kOp == Alu::kMadHiCarry ? warp.source<T>(op.c) : nullptr;
  const Cell cell = static_cast<Cell>(op.args);
  constexpr uint32_t kInverted = kOp == Alu::kSubCarry ? 0xffffffffu : 0;
  const uint32_t in = (op.mode & 1) != 0 ? warp.predicate(cell) ^ kInverted : 0;
  uint32_t out = 0;
  for_lanes(mask, [&](unsigned i) {
    const T carry_in = in >> i & 1;
    W wide = 0;
    if constexpr (kOp == Alu::kSubCarry) {
      wide = static_cast<W>(a[i]) - static_cast<W>(b[i]) - carry_in;
    } else if constexpr (kOp == Alu::kAddCarry) {
      wide = static_cast<W>(a[i]) + static_cast<W>(b[i]) + carry_in;
    } else {
      const W product = static_cast<W>(a[i]) * static_cast<W>(b[i]);
      const T part = static_cast<T>(kOp == Alu::kMadHiCarry ? product >> (sizeof(T) * 8) : product);
      wide = static_cast<W>(part) + static_cast<W>(c[i]) + carry_in;
    }
    dst[i] = static_cast<T>(wide);
    if ((wide >> (sizeof(T) * 8) & 1) != 0) out |= 1u << i;
  });
  if ((op.mode & 2) != 0) warp.set_predicate(cell, out ^ kInverted, mask);
}
