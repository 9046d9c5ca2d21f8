// out[i] = Op(in0[i], in1[i], ...): the kernels behind every elementwise op.
// T is the operands' common dtype, In... are the stored ones, Out the result's. kKinds has two bits
// per operand, an OperandKind.
// map_dense: everything contiguous. A block owns kBlock * kUnroll * kVec consecutive elements; each
//   thread has kUnroll independent accesses of kVec elements in flight before the first use.
// map_strided: up to kRank axes; kVec > 1 where the inner axis is contiguous (kind 1: stride 0).
// map_any: dtypes known only at run time; slower, but one kernel per op and compute type serves
// all.
#pragma once

#include "args/elementwise.h"
#include "common/dtype.cuh"
#include "common/vec.cuh"
#include "elementwise/activation.cuh"
#include "elementwise/any_dtype.cuh"
#include "elementwise/divider.cuh"

namespace gpk {

using namespace kernels;

template <class C>
__device__ __forceinline__ C number_as(const Number& number) {
  return *reinterpret_cast<const C*>(number.bytes);
}

// As T: every operand keeps its own compute type; for functions of mixed dtypes.
struct Own {};

template <class T, class In>
struct ValueOf {
  using Type = Compute<T>;
};
template <class In>
struct ValueOf<Own, In> {
  using Type = Compute<In>;
};
template <class T, class In>
using Value = typename ValueOf<T, In>::Type;

// One operand's values in a thread: kUnroll vectors, or one number.
template <class T, class In, OperandKind kKind, int kVec, int kUnroll>
struct Lane {
  Vec<In, kVec> v[kUnroll];
  __device__ __forceinline__ void load(int u, const In* p) { v[u] = load_vec<In, kVec>(p); }
  __device__ __forceinline__ void load_one(int u, int i, const In* p) { v[u].v[i] = *p; }
  __device__ __forceinline__ void set(const Number&, const In*) {}
  __device__ __forceinline__ Value<T, In> get(int u, int i) const {
    return convert<Value<T, In>>(v[u].v[i]);
  }
};

template <class T, class In, int kVec, int kUnroll>
struct Lane<T, In, OperandKind::kOneElement, kVec, kUnroll> {
  Value<T, In> value[kUnroll];
  __device__ __forceinline__ void load(int u, const In* p) { value[u] = convert<Value<T, In>>(*p); }
  __device__ __forceinline__ void load_one(int u, int, const In* p) { load(u, p); }
  __device__ __forceinline__ void set(const Number&, const In* p) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) load(u, p);
  }
  __device__ __forceinline__ Value<T, In> get(int u, int) const { return value[u]; }
};

template <class T, class In, int kVec, int kUnroll>
struct Lane<T, In, OperandKind::kNumber, kVec, kUnroll> {
  Value<T, In> value;
  __device__ __forceinline__ void load(int, const In*) {}
  __device__ __forceinline__ void load_one(int, int, const In*) {}
  __device__ __forceinline__ void set(const Number& number, const In*) {
    value = number_as<Value<T, In>>(number);
  }
  __device__ __forceinline__ Value<T, In> get(int, int) const { return value; }
};

// All operands: Lanes<...>::each(f) calls f(operand index, lane) for every one of them.
template <class T, unsigned kKinds, int kVec, int kUnroll, int kAt, class... In>
struct Lanes {
  template <class F>
  __device__ __forceinline__ void each(const F&) {}
  template <class Op, class... Values>
  __device__ __forceinline__ auto apply(int, int, Values... values) const {
    return Op::template run<T>(values...);
  }
};

template <class T, unsigned kKinds, int kVec, int kUnroll, int kAt, class First, class... Rest>
struct Lanes<T, kKinds, kVec, kUnroll, kAt, First, Rest...> {
  Lane<T, First, static_cast<OperandKind>((kKinds >> (2 * kAt)) & 3), kVec, kUnroll> lane;
  Lanes<T, kKinds, kVec, kUnroll, kAt + 1, Rest...> rest;

  template <class F>
  __device__ __forceinline__ void each(const F& f) {
    f.template run<kAt, static_cast<OperandKind>((kKinds >> (2 * kAt)) & 3), First>(lane);
    rest.each(f);
  }
  template <class Op, class... Values>
  __device__ __forceinline__ auto apply(int u, int i, Values... values) const {
    return rest.template apply<Op>(u, i, values..., lane.get(u, i));
  }
};

template <int kN>
struct SetNumbers {
  const MapArgs<kN>& args;
  template <int kAt, OperandKind kKind, class In, class L>
  __device__ __forceinline__ void run(L& lane) const {
    lane.set(args.number[kAt], static_cast<const In*>(args.in[kAt]));
  }
};

template <int kN>
struct SetNumbersOnly {
  const MapArgs<kN>& args;
  template <int kAt, OperandKind kKind, class In, class L>
  __device__ __forceinline__ void run(L& lane) const {
    if constexpr (kKind == OperandKind::kNumber) lane.set(args.number[kAt], nullptr);
  }
};

template <int kN>
struct LoadDense {
  const MapArgs<kN>& args;
  int u;
  long long at;
  template <int kAt, OperandKind kKind, class In, class L>
  __device__ __forceinline__ void run(L& lane) const {
    if constexpr (kKind == OperandKind::kArray)
      lane.load(u, static_cast<const In*>(args.in[kAt]) + at);
  }
};

template <int kN>
struct LoadOne {
  const MapArgs<kN>& args;
  long long at;
  template <int kAt, OperandKind kKind, class In, class L>
  __device__ __forceinline__ void run(L& lane) const {
    if constexpr (kKind == OperandKind::kArray)
      lane.load_one(0, 0, static_cast<const In*>(args.in[kAt]) + at);
  }
};

template <class Op, class T, class Out, int kVec, int kUnroll, unsigned kKinds, class... In>
__global__ void __launch_bounds__(256)
    map_dense(const __grid_constant__ MapArgs<sizeof...(In)> args, long long n) {
  constexpr int kBlock = 256;
  constexpr int kStep = kBlock * kVec;
  const long long first =
      (static_cast<long long>(blockIdx.x) * kBlock * kUnroll + threadIdx.x) * kVec;
  Out* out = static_cast<Out*>(args.out);
  if (first + static_cast<long long>(kUnroll - 1) * kStep + kVec <= n) {
    Lanes<T, kKinds, kVec, kUnroll, 0, In...> lanes;
    lanes.each(SetNumbers<sizeof...(In)>{args});
#pragma unroll
    for (int u = 0; u < kUnroll; ++u)
      lanes.each(LoadDense<sizeof...(In)>{args, u, first + u * kStep});
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      Vec<Out, kVec> y;
#pragma unroll
      for (int i = 0; i < kVec; ++i) y.v[i] = convert<Out>(lanes.template apply<Op>(u, i));
      store_vec<Out, kVec>(out + first + u * kStep, y);
    }
    return;
  }
  Lanes<T, kKinds, 1, 1, 0, In...> lanes;
  lanes.each(SetNumbers<sizeof...(In)>{args});
  for (int u = 0; u < kUnroll; ++u) {
    for (int i = 0; i < kVec; ++i) {
      const long long at = first + u * kStep + i;
      if (at >= n) return;
      lanes.each(LoadOne<sizeof...(In)>{args, at});
      out[at] = convert<Out>(lanes.template apply<Op>(0, 0));
    }
  }
}

// --- strided ------------------------------------------------------------------------------------

// Offsets of one work item for all operands. The inner axis counts in steps of kVec elements.
template <int kN, int kRank, class Index>
__device__ __forceinline__ void offsets(const StridedArgs<kN, kRank, Index>& args, long long item,
                                        Index (&at)[kN + 1]) {
#pragma unroll
  for (int k = 0; k <= kN; ++k) at[k] = 0;
  if constexpr (sizeof(Index) == 4) {
    unsigned left = static_cast<unsigned>(item);
#pragma unroll 4
    for (int axis = 0; axis < kRank; ++axis) {
      if (axis >= args.rank) break;
      const unsigned next = divide(left, args.size[axis]);
      const Index index = static_cast<Index>(left - next * args.size[axis].divisor);
#pragma unroll
      for (int k = 0; k <= kN; ++k) at[k] += index * args.stride[axis][k];
      left = next;
    }
  } else {
    long long left = item;
    for (int axis = 0; axis < args.rank; ++axis) {
      const long long next = left / args.long_size[axis];
      const Index index = left - next * args.long_size[axis];
#pragma unroll
      for (int k = 0; k <= kN; ++k) at[k] += index * args.stride[axis][k];
      left = next;
    }
  }
}

template <int kN, class Index>
struct LoadStrided {
  const MapArgs<kN>& args;
  int u;
  const Index (&at)[kN + 1];
  template <int kAt, OperandKind kKind, class In, class L>
  __device__ __forceinline__ void run(L& lane) const {
    if constexpr (kKind != OperandKind::kNumber)
      lane.load(u, static_cast<const In*>(args.in[kAt]) + at[kAt]);
  }
};

template <class Op, class T, class Out, int kVec, int kUnroll, int kRank, class Index,
          unsigned kKinds, class... In>
__global__ void __launch_bounds__(256)
    map_strided(const __grid_constant__ StridedArgs<sizeof...(In), kRank, Index> args) {
  constexpr int kN = sizeof...(In);
  constexpr int kBlock = 256;
  const long long first = static_cast<long long>(blockIdx.x) * kBlock * kUnroll + threadIdx.x;
  Lanes<T, kKinds, kVec, kUnroll, 0, In...> lanes;
  Index at[kUnroll][kN + 1];
  lanes.each(SetNumbersOnly<kN>{args.map});
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const long long item = first + u * kBlock;
    if (item < args.n) {
      offsets<kN, kRank, Index>(args, item, at[u]);
      lanes.each(LoadStrided<kN, Index>{args.map, u, at[u]});
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kBlock >= args.n) break;
    Vec<Out, kVec> y;
#pragma unroll
    for (int i = 0; i < kVec; ++i) y.v[i] = convert<Out>(lanes.template apply<Op>(u, i));
    store_vec<Out, kVec>(static_cast<Out*>(args.map.out) + at[u][kN], y);
  }
}

// --- dtypes at run time -------------------------------------------------------------------------

template <class Op, class C, int kN, int kAt>
struct AnyValues {
  template <class... Values>
  static __device__ __forceinline__ auto run(const AnyArgs<kN>& args, const long long (&at)[kN + 1],
                                             Values... values) {
    if constexpr (kAt == kN) {
      return Op::template run<C>(values...);
    } else {
      const C value = args.dtype[kAt] == AnyArgs<kN>::kNumber
                          ? number_as<C>(args.strided.map.number[kAt])
                          : load_any<C>(args.strided.map.in[kAt], args.dtype[kAt], at[kAt]);
      return AnyValues<Op, C, kN, kAt + 1>::run(args, at, values..., value);
    }
  }
};

template <class Op, class C, int kN>
__global__ void __launch_bounds__(256) map_any(const __grid_constant__ AnyArgs<kN> args) {
  const long long item = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (item >= args.strided.n) return;
  long long at[kN + 1];
  offsets<kN, 32, long long>(args.strided, item, at);
  store_any(args.strided.map.out, args.dtype[kN], at[kN], AnyValues<Op, C, kN, 0>::run(args, at));
}

}  // namespace gpk
