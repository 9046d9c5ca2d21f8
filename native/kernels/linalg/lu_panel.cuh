// P A = L U in place with partial pivoting of a tall panel, by several blocks for each matrix
// (grid: panel.cuh), each of which has rows_per_block rows in dynamic shared memory (rows of odd
// pitch). Rows stay where they are; the place that swaps would bring each of them to goes along,
// and is where it is written. For a column every block offers its candidate for the pivot, with the
// row's elements; the best of them is the same everywhere. Pivots, zeros and `status` as in lu.cuh.
#pragma once

#include "linalg/panel.cuh"

namespace gpk {

// In the order of numbers that are not negative: above 0 for -1, above 1 for 0.
__device__ __forceinline__ unsigned long long order_of_size(float size) {
  return size >= 0.0f ? __float_as_uint(size) + 2ull : size >= -1.0f ? 1ull : 0ull;
}
__device__ __forceinline__ unsigned long long order_of_size(double size) {
  if (size < 0.0) return size >= -1.0 ? 1 : 0;
  return static_cast<unsigned long long>(__double_as_longlong(size)) + 2;
}

// The row of a pivot; of equal ones the first place wins.
template <class R>
struct Candidate {
  R size;
  int place;
  int at;  // the row in its block, or the block

  static __device__ __forceinline__ Candidate none() { return {R(-2), 0x7fffffff, 0}; }
  __device__ __forceinline__ void take(const Candidate& other) {
    if (other.size > size || (other.size == size && other.place < place)) *this = other;
  }
  // Place and `at` of all lanes' best, for all of them.
  __device__ __forceinline__ void reduce() {
    constexpr unsigned kAll = 0xffffffffu;
    const unsigned long long order = order_of_size(size);
    const auto low = static_cast<unsigned>(order);
    bool best = true;
    if constexpr (sizeof(R) == 8) {
      const auto high = static_cast<unsigned>(order >> 32);
      best = high == __reduce_max_sync(kAll, high);
    }
    best = low == __reduce_max_sync(kAll, best ? low : 0u) && best;
    const auto mine = best ? static_cast<unsigned>(place) : kAll;
    const unsigned first = __reduce_min_sync(kAll, mine);
    at =
        static_cast<int>(__reduce_min_sync(kAll, mine == first ? static_cast<unsigned>(at) : kAll));
    place = static_cast<int>(first);
  }
};

template <class T>
struct LuPanel {
  using N = Number<T>;
  using R = RealOf<T>;
  static constexpr int kWarps = kPanelThreads / 32;
  using Exchange = PanelExchange<T, kPanelBlocks>;
  static constexpr int kLaneCols = Exchange::kLaneCols;
  static constexpr int kSizeWords = sizeof(R) / 4;

  const LuPanelArgs& args;
  PanelRows rows;
  int pitch, lane, warp;
  T* a;
  T* top;                    // the pivot's row
  Candidate<R>* candidates;  // of warps
  Candidate<R>* offers;      // of the block in a cluster, in turn
  int* chosen;               // place of the pivot
  int* places;               // of rows

  __device__ __forceinline__ explicit LuPanel(const LuPanelArgs& given)
      : args(given),
        rows(given.rows, given.rows_per_block),
        pitch(odd_pitch(given.cols)),
        lane(static_cast<int>(threadIdx.x) % 32),
        warp(static_cast<int>(threadIdx.x) / 32),
        top(reinterpret_cast<T*>(dynamic_shared())),
        candidates(reinterpret_cast<Candidate<R>*>(top + kPanelMaxCols)),
        offers(candidates + kWarps),
        chosen(reinterpret_cast<int*>(offers + 2)),
        places(chosen + 1) {
    // Behind the places, aligned.
    const int bytes = static_cast<int>(
        reinterpret_cast<unsigned char*>(places + given.rows_per_block) - dynamic_shared());
    a = reinterpret_cast<T*>(dynamic_shared() + (bytes + 15) / 16 * 16);
  }

  static __device__ __forceinline__ R size_of(T x) {
    const R size = N::sum_of_parts(x);
    return size == size ? size : R(-1);  // NaN only where there is nothing else
  }

  __device__ __forceinline__ void load(const Matrix<T>& from) const {
    Candidate<R> best = Candidate<R>::none();
    for (int i = warp; i < rows.count; i += kWarps) {
      for (int k = lane; k < args.cols; k += 32) {
        const T x = from(rows.first + i, k);
        a[i * pitch + k] = x;
        if (k == 0) best.take({size_of(x), rows.first + i, i});
      }
      if (lane == 0) places[i] = rows.first + i;
    }
    if (lane == 0) candidates[warp] = best;
  }

  // The best of what this lane's blocks, one or two, have published.
  template <int kCount>
  __device__ __forceinline__ void receive_candidates(const Exchange& words,
                                                     Candidate<R>& best) const {
    constexpr int kParts = kSizeWords + 1;
    static_assert(kPanelBlocks == 64);
    float raw[kParts * kCount];
    receive(words.word(0, lane), kPanelBlocks / kCount, kParts * kCount, words.tag, raw);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      float size[kSizeWords];
#pragma unroll
      for (int w = 0; w < kSizeWords; ++w) size[w] = raw[w * kCount + i];
      best.take({FromWords<R>::make(size),
                 static_cast<int>(__float_as_uint(raw[kSizeWords * kCount + i])), lane + i * 32});
    }
  }

  // By one warp: the pivot of column j, its row to `top`.
  __device__ __forceinline__ void exchange(int j, unsigned long long* slots) const {
    Candidate<R> best = best_of_block(j);
    const int count = args.cols - j;
    const auto blocks = static_cast<int>(gridDim.x);
    if (blocks == 1) {
      for (int k = lane; k < count; k += 32) top[j + k] = a[best.at * pitch + j + k];
    } else {
      const Exchange words(slots, j, static_cast<unsigned>(args.first + j + 1));
      if (j == 0) __threadfence();  // rows are written where another block has read
      publish_candidate(words, best, j);
      best = Candidate<R>::none();
      if (lane + 32 < blocks) {
        receive_candidates<2>(words, best);
      } else if (lane < blocks) {
        receive_candidates<1>(words, best);
      }
      if (j == 0) __threadfence();
      best.reduce();
      T values[kLaneCols];
      words.get(best.at, count, values);
#pragma unroll
      for (int i = 0; i < kLaneCols; ++i)
        if (lane + i * 32 < count) top[j + lane + i * 32] = values[i];
    }
    if (lane == 0) *chosen = best.place;
  }

  // By one warp, for all lanes.
  __device__ __forceinline__ Candidate<R> best_of_block(int j) const {
    Candidate<R> best = lane < kWarps ? candidates[lane] : Candidate<R>::none();
    best.reduce();
    best.size = Candidate<R>::none().size;
    if (best.place != Candidate<R>::none().place) best.size = size_of(a[best.at * pitch + j]);
    return best;
  }

  __device__ __forceinline__ void publish_candidate(const Exchange& words, const Candidate<R>& best,
                                                    int j) const {
    const T* const row = a + best.at * pitch + j;
    if (lane <= kSizeWords) {
      const float* const parts = reinterpret_cast<const float*>(&best.size);
      float part = __int_as_float(best.place);
#pragma unroll
      for (int w = 0; w < kSizeWords; ++w)
        if (lane == w) part = parts[w];
      publish(words.word(lane, static_cast<int>(blockIdx.x)), part, words.tag);
    }
    if (best.place != Candidate<R>::none().place)
      for (int k = lane; k < args.cols - j; k += 32) words.put(k, row[k]);
  }

  // Swaps places j and that of the pivot, divides column j, subtracts its products with `top`, and
  // looks for the next pivot. A warp's rows are its own.
  __device__ __forceinline__ void update(int j, T pivot) const {
    const int pivot_place = *chosen;
    const bool is_zero = pivot == N::of(R(0));
    const bool exact = !has_reciprocal(N::sum_of_parts(pivot));
    const T by = exact ? pivot : N::of(R(1)) / pivot;
    Candidate<R> best = Candidate<R>::none();
    T right[kLaneCols];
#pragma unroll
    for (int c = 0; c < kLaneCols; ++c) {
      const int k = j + 1 + lane + c * 32;
      right[c] = k < args.cols ? top[k] : N::of(R(0));
    }
    for (int i = warp; i < rows.count; i += kWarps) {
      T* const row = a + i * pitch;
      int place = places[i];
      T left = row[j];
      __syncwarp();  // the lanes have read what one of them writes
      if (place == pivot_place) {
        place = j;
      } else if (place == j) {
        place = pivot_place;
      }
      if (lane == 0) places[i] = place;
      if (place <= j) continue;
      if (!is_zero) {
        left = exact ? left / by : left * by;
        if (lane == 0) row[j] = left;
      }
#pragma unroll
      for (int c = 0; c < kLaneCols; ++c) {
        const int k = j + 1 + lane + c * 32;
        if (k >= args.cols) continue;
        T x = row[k];
        if (!is_zero) {
          x = x - left * right[c];
          row[k] = x;
        }
        if (c == 0) best.take({size_of(x), place, i});
      }
    }
    if (lane == 0) candidates[warp] = best;  // column j + 1 is this lane's
  }

  // reduce_pivot(j), by all threads: the pivot of all blocks to `chosen` and `top`.
  template <class ReducePivot>
  __device__ __forceinline__ void run(const ReducePivot& reduce_pivot) const {
    const long long batch = args.first_matrix + blockIdx.y;
    const Matrix<T> global(args.a, batch);
    load(global);
    for (int j = 0; j < args.cols; ++j) {
      __syncthreads();
      reduce_pivot(j);
      __syncthreads();
      const T pivot = top[j];
      if (blockIdx.x == 0 && threadIdx.x == 0) {
        args.pivots[batch * args.pivots_batch + j] = args.first + *chosen;
        if (pivot == N::of(R(0)) && args.status[batch] == 0)
          args.status[batch] = args.first + j + 1;
      }
      update(j, pivot);
    }
    __syncthreads();
    for (int i = warp; i < rows.count; i += kWarps)
      for (int k = lane; k < args.cols; k += 32) global(places[i], k) = a[i * pitch + k];
  }
};

template <class T>
__global__ __launch_bounds__(kPanelThreads,
                             1) void lu_panel(const __grid_constant__ LuPanelArgs args) {
  const LuPanel<T> panel(args);
  unsigned long long* const words =
      args.exchange + (args.first_matrix + blockIdx.y) * kPanelSlotWords;
  panel.run([&](int j) {
    if (panel.warp == 0) panel.exchange(j, words);
  });
}

}  // namespace gpk
