// The smallest key at which the running sum of tokens in the order of their keys reaches a goal,
// without a sort: a histogram over the upper 11 bits of all keys, then one over the lower 11 bits
// of the keys in the bin where the sum gets there. Each block counts its own slice; then block r
// adds up a share of the bins over all blocks, and every block searches the sums.
#pragma once

#include "sampling/team.cuh"

namespace gpk {

struct SelectShared {
  unsigned
      low[kSampleBins];  // sums of the slice, 64 bits in two halves: atomics of 32 bits are fast
  unsigned high[kSampleBins];
  Mass sums[kSampleBins];  // of this block's share of the bins, over all blocks
  unsigned found_bin;
  Mass found_before;
};

template <int kThreads, class Blocks>
class Select {
 public:
  __device__ __forceinline__ Select(Blocks& team, SelectShared& shared)
      : team_(team), shared_(shared), share_(kSampleBins / team.size) {}

  // each(add) calls add(key, weight) for the tokens of this thread. goal(total) is from 1 to total.
  // With one level the upper 11 bits.
  template <int kLevels = 2, class Each, class Goal>
  __device__ __forceinline__ unsigned run(const Each& each, const Goal& goal) {
    unsigned upper = 0;
    Mass before = 0;
#pragma unroll 1
    for (int level = 0; level < kLevels; ++level) {
      clear();
      each([&](unsigned key, Mass weight) {
        if (level == 0) {
          add(key >> 11, weight);
        } else if (key >> 11 == upper) {
          add(key & (kSampleBins - 1), weight);
        }
      });
      sum_up();
      if (level == 0) wanted_ = goal(team_.template all<SumMass>());
      upper = upper << 11 | find(before);
    }
    return upper;
  }

  // Of the last search.
  [[nodiscard]] __device__ __forceinline__ Mass wanted() const { return wanted_; }

 private:
  __device__ __forceinline__ void clear() {
    for (int b = static_cast<int>(threadIdx.x); b < kSampleBins; b += kThreads)
      shared_.low[b] = shared_.high[b] = 0;
    __syncthreads();
  }

  __device__ __forceinline__ void add(unsigned bin, Mass weight) {
    const unsigned low = static_cast<unsigned>(weight);
    const unsigned old = atomicAdd(&shared_.low[bin], low);
    const unsigned high = static_cast<unsigned>(weight >> 32) + (old + low < low ? 1u : 0u);
    if (high != 0) atomicAdd(&shared_.high[bin], high);
  }

  // Threads share the blocks of a bin, too: reads of other blocks take long.
  __device__ __forceinline__ void sum_up() {
    team_.sync();
    const int thread = static_cast<int>(threadIdx.x);
    const int parts = min(team_.size, max(1, kThreads / share_));
    const int per_part = team_.size / parts;
    Mass all = 0;
#pragma unroll 1
    for (int at = thread; at < share_ * parts; at += kThreads) {
      const int bin = team_.rank * share_ + (at & (share_ - 1));
      const int first = at / share_ * per_part;
      Mass sum = 0;
#pragma unroll 2
      for (int of = first; of < first + per_part; ++of)
        sum += team_.read(&shared_.low[bin], of) +
               (static_cast<Mass>(team_.read(&shared_.high[bin], of)) << 32);
      shared_.sums[parts == 1 ? at : share_ + at] = sum;
      all += sum;
    }
    all = team_.template reduce<SumMass>(all);
    if (parts > 1 && thread < share_) {
      Mass sum = 0;
#pragma unroll 1
      for (int part = 1; part <= parts; ++part) sum += shared_.sums[part * share_ + thread];
      shared_.sums[thread] = sum;
    }
    team_.post(all);
  }

  // The bin where the sum, which is `before` at the first one, gets to what is wanted. `before`
  // becomes the sum ahead of that bin.
  __device__ __forceinline__ unsigned find(Mass& before) {
    const Mass wanted = wanted_;
    int of = 0;
#pragma unroll 1
    while (of < team_.size - 1 && before + team_.posted(of) < wanted) before += team_.posted(of++);
    const int per_thread = (share_ + kThreads - 1) / kThreads;
    const int first = static_cast<int>(threadIdx.x) * per_thread;
    const int end = min(first + per_thread, share_);
    Mass mine = 0;
#pragma unroll 1
    for (int b = first; b < end; ++b) mine += team_.read(&shared_.sums[b], of);
    Mass sum = before + team_.scan(mine);
    if (sum < wanted && wanted <= sum + mine) {
      int b = first;
      for (;; ++b) {
        const Mass here = team_.read(&shared_.sums[b], of);
        if (sum + here >= wanted) break;
        sum += here;
      }
      shared_.found_bin = static_cast<unsigned>(of * share_ + b);
      shared_.found_before = sum;
    }
    __syncthreads();
    before = shared_.found_before;
    return shared_.found_bin;
  }

  Blocks& team_;
  SelectShared& shared_;
  const int share_;
  Mass wanted_ = 0;
};

}  // namespace gpk
