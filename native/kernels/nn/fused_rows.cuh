// A function of arrays that is made of elementwise ops and ops over rows, as gp.fuse generates it:
// F::run(row) reads each input once, reduces in passes and writes the result.
// A row has `group` threads (row.cuh), each kA accesses of kV elements; kA = 0 is for rows that do
// not fit into registers: every pass reads memory again. kOnline: softmax takes one pass, as it
// does alone for such rows. kOneResult: the result has one element per row. kKinds has two bits per
// input, an OperandKind.
// Numerics: row_parts.cuh.
#pragma once

#include "args/elementwise.h"
#include "nn/row_parts.cuh"

namespace gpk {

// Accesses beyond 16 bytes are several.
template <class T, int kV>
__device__ __forceinline__ Vec<T, kV> load_wide(const T* p) {
  constexpr int kStep = kV * sizeof(T) > 16 ? 16 / sizeof(T) : kV;
  Vec<T, kV> raw;
#pragma unroll
  for (int j = 0; j < kV; j += kStep) {
    const Vec<T, kStep> part = load_vec<T, kStep>(p + j);
#pragma unroll
    for (int v = 0; v < kStep; ++v) raw.v[j + v] = part.v[v];
  }
  return raw;
}

template <class T, int kV>
__device__ __forceinline__ void store_wide(T* p, const Vec<T, kV>& raw) {
  constexpr int kStep = kV * sizeof(T) > 16 ? 16 / sizeof(T) : kV;
#pragma unroll
  for (int j = 0; j < kV; j += kStep) {
    Vec<T, kStep> part;
#pragma unroll
    for (int v = 0; v < kStep; ++v) part.v[v] = raw.v[j + v];
    store_vec<T, kStep>(p + j, part);
  }
}

// The values of an input in kC accesses of a thread: a, v to the stored one and the one to compute
// with.
template <class T, int kV, int kC>
struct LoadedRow {
  Vec<T, kV> vectors[kC];
  __device__ __forceinline__ T raw(int a, int v) const { return vectors[a].v[v]; }
  __device__ __forceinline__ Compute<T> operator()(int a, int v) const {
    return to_compute(vectors[a].v[v]);
  }
};

template <class T>
struct LoadedOne {
  T value;
  __device__ __forceinline__ T raw(int, int) const { return value; }
  __device__ __forceinline__ Compute<T> operator()(int, int) const { return to_compute(value); }
};

template <class C>
struct LoadedNumber {
  C value;
  __device__ __forceinline__ C operator()(int, int) const { return value; }
};

// kC accesses of a thread: the first is number `first` of the row's, at element `index`.
template <int kV, int kC>
struct Accesses {
  int first;
  int index;
  int step;
  int width;

  __device__ __forceinline__ bool has(int a) const { return index + a * step < width; }

  template <class T>
  __device__ __forceinline__ LoadedRow<T, kV, kC> load(const T* row) const {
    LoadedRow<T, kV, kC> loaded;
#pragma unroll
    for (int a = 0; a < kC; ++a)
      if (has(a)) loaded.vectors[a] = load_wide<T, kV>(row + index + a * step);
    return loaded;
  }
  template <class T>
  __device__ __forceinline__ LoadedOne<T> load(const LoadedOne<T>& one) const {
    return one;
  }
  template <class C>
  __device__ __forceinline__ LoadedNumber<C> load(const LoadedNumber<C>& number) const {
    return number;
  }

  // f(access, element of it), and end() after each access.
  template <class F, class End>
  __device__ __forceinline__ void each(const F& f, const End& end) const {
#pragma unroll
    for (int a = 0; a < kC; ++a) {
      if (!has(a)) continue;
#pragma unroll
      for (int v = 0; v < kV; ++v) f(a, v);
      end();
    }
  }

  // out = f(access, element of it).
  template <class T, class F>
  __device__ __forceinline__ void store(T* out, const F& f) const {
#pragma unroll
    for (int a = 0; a < kC; ++a) {
      if (!has(a)) continue;
      Vec<T, kV> raw;
#pragma unroll
      for (int v = 0; v < kV; ++v) raw.v[v] = f(a, v);
      store_wide<T, kV>(out + index + a * step, raw);
    }
  }
};

// Values of a row that a later pass uses.
template <class T, int kV, int kA>
class HeldRow {
 public:
  // Before such a pass, or the compiler keeps narrow values as float32, in twice as many registers.
  __device__ __forceinline__ void forget() {
    if constexpr (sizeof(T) < 4 && kV * sizeof(T) >= 4) {
#pragma unroll
      for (int a = 0; a < kA; ++a) {
#pragma unroll
        for (int w = 0; w < static_cast<int>(kV * sizeof(T) / 4); ++w)
          hide(reinterpret_cast<unsigned*>(&raw_[a])[w]);
      }
    }
  }
  template <class At>
  __device__ __forceinline__ void set(const At& at, int a, int v, T value) {
    raw_[at.first + a].v[v] = value;
  }
  template <class At>
  __device__ __forceinline__ T get(const At& at, int a, int v) const {
    return raw_[at.first + a].v[v];
  }

 private:
  Vec<T, kV> raw_[kA];
};

template <int kVec, int kAccesses, bool kOnlineSoftmax, bool kOneResult, unsigned kKinds>
class FusedRow {
 public:
  static constexpr int kV = kVec;
  static constexpr int kA = kAccesses;
  static constexpr bool kHeld = kA > 0;
  static constexpr bool kOnline = kOnlineSoftmax;
  static constexpr int kBytesInFlight = 64;  // of a thread
  static constexpr int kMaxUnrolled = 1024;  // values in the code of a pass that need not be
  template <class T>
  using Held = HeldRow<T, kV, kA>;

  __device__ __forceinline__ FusedRow(const FusedRowsArgs& args, double (*shared)[16])
      : args_(args), shared_(shared), at_(args.group) {
    width_ = at_.row < args.rows ? args.width : 0;
    row_ = at_.row < args.rows ? at_.row : 0;
  }

  [[nodiscard]] __device__ __forceinline__ float length() const {
    return static_cast<float>(args_.width);
  }
  [[nodiscard]] __device__ __forceinline__ double exact_length() const { return args_.width; }

  // Of type T, or for numbers of its compute type: what Accesses::load takes.
  template <int kAt, class T>
  __device__ __forceinline__ auto input() const {
    constexpr OperandKind kKind = static_cast<OperandKind>((kKinds >> (2 * kAt)) & 3);
    if constexpr (kKind == OperandKind::kNumber) {
      return LoadedNumber<Compute<T>>{*reinterpret_cast<const Compute<T>*>(args_.number[kAt])};
    } else {
      const T* const from = static_cast<const T*>(args_.in[kAt]) + offset(kAt);
      if constexpr (kKind == OperandKind::kOneElement) {
        return LoadedOne<T>{*from};
      } else {
        return from;
      }
    }
  }

  template <class Op, int kSlot, class V>
  __device__ __forceinline__ V combine(V x) const {
    return gpk::combine<Op, V>(x, at_.group, reinterpret_cast<V*>(shared_[kSlot]));
  }

  // f(accesses) for all of them, some at once: their loads are in flight together, kLoads of kBytes
  // per element, of which kValues are computed.
  template <int kLoads, int kBytes, int kValues, class F>
  __device__ __forceinline__ void pass(const F& f) const {
    constexpr int kC = at_once(kLoads, kBytes, kValues);
    const int first = at_.lane * kV;
    const int step = at_.group * kV;
    if constexpr (kHeld) {
#pragma unroll
      for (int a = 0; a < kA; a += kC) f(Accesses<kV, kC>{a, first + a * step, step, width_});
    } else {
#pragma unroll 1
      for (int i = first; i < width_; i += kC * step) f(Accesses<kV, kC>{0, i, step, width_});
    }
  }

  // The same where f(accesses, out) stores the result.
  template <int kLoads, int kBytes, int kValues, class T, class F>
  __device__ __forceinline__ void last(const F& f) const {
    T* const out = static_cast<T*>(args_.out) + offset(FusedRowsArgs::kMaxInputs);
    if constexpr (kOneResult) {
      if (at_.lane == 0 && at_.row < args_.rows) f(Accesses<1, 1>{0, 0, 1, 1}, out);
    } else {
      pass<kLoads, kBytes, kValues>([&](const auto& at) { f(at, out); });
    }
  }

 private:
  static __device__ constexpr int at_once(int loads, int bytes, int values) {
    const int taken = kV * bytes > 4 * loads ? kV * bytes : 4 * loads;  // whole registers
    int accesses = kHeld ? kA : 4;
    while (accesses > 1 &&
           (accesses * taken > kBytesInFlight || (!kHeld && accesses * kV * values > kMaxUnrolled)))
      accesses /= 2;
    return accesses;
  }

  __device__ __forceinline__ long long offset(int input) const {
    long long left = row_;
    long long at = 0;
    int d = 0;
    for (; d + 1 < args_.num_dims; ++d) {
      const long long next = left / args_.size[d];
      at += (left - next * args_.size[d]) * args_.stride[d][input];
      left = next;
    }
    return at + left * args_.stride[d][input];
  }

  const FusedRowsArgs& args_;
  double (*shared_)[16];
  RowPlace at_;
  long long row_;
  int width_;
};

template <class F, int kV, int kA, bool kOnline, bool kOneResult, unsigned kKinds>
__global__ void __launch_bounds__(kMaxRowGroup, 1)
    fused_rows(const __grid_constant__ FusedRowsArgs args) {
  __shared__ double shared[2][16];
  const FusedRow<kV, kA, kOnline, kOneResult, kKinds> row(args, shared);
  F::run(row);
}

}  // namespace gpk
