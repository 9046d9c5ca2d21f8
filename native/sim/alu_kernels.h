// Lane loops of alu.h, compiled once per instruction set: included by alu_base.cpp and
// alu_avx2.cpp inside their own namespaces. No include guard on purpose.

using std::int16_t;
using std::int32_t;
using std::int64_t;
using std::uint16_t;
using std::uint32_t;
using std::uint64_t;

template <class F, class D, class A>
GPK_NOINLINE void map1(const Op& op, Warp& warp, uint32_t mask) {
  D* dst = warp.cell<D>(op.dst);
  const A* a = warp.source<A>(op.a);
  if (mask == kFull) {
    GPK_LANES for (unsigned i = 0; i < kLanes; ++i) dst[i] = F::run(a[i]);
  } else if constexpr (F::kCheap) {
    GPK_LANES for (unsigned i = 0; i < kLanes; ++i) {
      const D result = F::run(a[i]);
      dst[i] = (mask >> i & 1) != 0 ? result : dst[i];
    }
  } else {
    for_lanes(mask, [&](unsigned i) { dst[i] = F::run(a[i]); });
  }
}

template <class F, class D, class A, class B = A>
GPK_NOINLINE void map2(const Op& op, Warp& warp, uint32_t mask) {
  D* dst = warp.cell<D>(op.dst);
  const A* a = warp.source<A>(op.a);
  const B* b = warp.source<B>(op.b);
  if (mask == kFull) {
    GPK_LANES for (unsigned i = 0; i < kLanes; ++i) dst[i] = F::run(a[i], b[i]);
  } else if constexpr (F::kCheap) {
    GPK_LANES for (unsigned i = 0; i < kLanes; ++i) {
      const D result = F::run(a[i], b[i]);
      dst[i] = (mask >> i & 1) != 0 ? result : dst[i];
    }
  } else {
    for_lanes(mask, [&](unsigned i) { dst[i] = F::run(a[i], b[i]); });
  }
}

template <class F, class D, class A, class B = A, class C = A>
GPK_NOINLINE void map3(const Op& op, Warp& warp, uint32_t mask) {
  D* dst = warp.cell<D>(op.dst);
  const A* a = warp.source<A>(op.a);
  const B* b = warp.source<B>(op.b);
  const C* c = warp.source<C>(op.c);
  if (mask == kFull) {
    GPK_LANES for (unsigned i = 0; i < kLanes; ++i) dst[i] = F::run(a[i], b[i], c[i]);
  } else if constexpr (F::kCheap) {
    GPK_LANES for (unsigned i = 0; i < kLanes; ++i) {
      const D result = F::run(a[i], b[i], c[i]);
      dst[i] = (mask >> i & 1) != 0 ? result : dst[i];
    }
  } else {
    for_lanes(mask, [&](unsigned i) { dst[i] = F::run(a[i], b[i], c[i]); });
  }
}

// The host's rounding mode around a handler. The handler is never inlined, so none of its
// arithmetic moves out from between the two calls.
template <Handler kInner, int kMode>
GPK_NOINLINE void rounded(const Op& op, Warp& warp, uint32_t mask) {
  std::fesetround(kMode);
  kInner(op, warp, mask);
  std::fesetround(FE_TONEAREST);
}

struct Cheap {
  static constexpr bool kCheap = true;
};
struct Costly {
  static constexpr bool kCheap = false;
};

#include "sim/alu_integer.h"

#include "sim/alu_float.h"

#include "sim/alu_pick.h"

#include "sim/alu_convert.h"

// --- matrix products ----------------------------------------------------------------------------
// d[m][n] = a[m][k] b[k][n] + d: products summed in double in order of k, rounded once.
GPK_NOINLINE void multiply_floats(const float* a, const float* b, float* d, unsigned rows,
                                  unsigned columns, unsigned depth) {
  double sums[256];
  for (unsigned m = 0; m < rows; ++m) {
    for (unsigned n = 0; n < columns; ++n) sums[n] = 0;
    for (unsigned k = 0; k < depth; ++k) {
      const double left = a[m * depth + k];
      const float* right = b + k * columns;
      GPK_LANES for (unsigned n = 0; n < columns; ++n) sums[n] += left * right[n];
    }
    GPK_LANES for (unsigned n = 0; n < columns; ++n) d[m * columns + n] =
        canonical(static_cast<float>(sums[n] + d[m * columns + n]));
  }
}

GPK_NOINLINE void multiply_integers(const int32_t* a, const int32_t* b, int64_t* d, unsigned rows,
                                    unsigned columns, unsigned depth) {
  for (unsigned m = 0; m < rows; ++m)
    for (unsigned k = 0; k < depth; ++k) {
      const int32_t left = a[m * depth + k];
      const int32_t* right = b + k * columns;
      GPK_LANES for (unsigned n = 0; n < columns; ++n) d[m * columns + n] +=
          int64_t{left} * right[n];
    }
}
