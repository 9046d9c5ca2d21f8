// A token of each row, drawn from softmax(x / temperature) after the filters, where x are the
// logits with penalties, bias and mask. Filters are bounds of keys and masses (mass.cuh) found by
// select.cuh: top-k, top-p, min-p, typical. The draw is the first token, by index, at which the
// running mass exceeds a random 64-bit word times the total. Temperature 0: the largest x, the
// first of equal ones. NaN counts as -inf; -1 where no token is left.
// Grid: rows * blocks, a team (team.cuh) per row. Logits are read once. Where a histogram shows
// that top-k or top-p leave few tokens, block 0 of a cluster goes on with those alone. Numerics:
// penalties in float32, sums exact.
#pragma once

#include "common/philox.cuh"
#include "sampling/select.cuh"

namespace gpk {

__device__ __forceinline__ float at_row(const RowFloat& of, int row) {
  return of.values == nullptr ? of.value : of.values[row];
}

// Penalties of seen tokens, bias, mask.
class LogitProcessor {
 public:
  __device__ __forceinline__ LogitProcessor(const SampleArgs& args, int row)
      : counts_(args.counts == nullptr ? nullptr : args.counts + row * args.counts_row),
        bias_(args.bias == nullptr ? nullptr : args.bias + row * args.bias_row),
        mask_(args.mask),
        mask_row_(row * args.mask_row),
        kind_(args.mask_kind) {
    if (counts_ == nullptr) return;
    repetition_ = at_row(args.repetition, row);
    presence_ = at_row(args.presence, row);
    frequency_ = at_row(args.frequency, row);
  }

  __device__ __forceinline__ float operator()(float x, int token) const {
    if (counts_ != nullptr) {
      const int count = counts_[token];
      if (count > 0) {
        x = x > 0.0f ? __fdiv_rn(x, repetition_) : __fmul_rn(x, repetition_);
        x = __fsub_rn(x, __fmul_rn(frequency_, static_cast<float>(count)));
        x = __fsub_rn(x, presence_);
      }
    }
    if (bias_ != nullptr) x = __fadd_rn(x, bias_[token]);
    if (!allows(token) || x != x) return lowest_logit();
    return __fadd_rn(x, 0.0f);  // no -0
  }

 private:
  __device__ __forceinline__ bool allows(int token) const {
    if (kind_ == TokenMask::kNone) return true;
    if (kind_ == TokenMask::kBools) return static_cast<const bool*>(mask_)[mask_row_ + token];
    const unsigned word = static_cast<const unsigned*>(mask_)[mask_row_ + token / 32];
    return (word >> (token & 31) & 1u) != 0;
  }

  const int* counts_;
  const float* bias_;
  const void* mask_;
  long long mask_row_;
  TokenMask kind_;
  float repetition_ = 1.0f;
  float presence_ = 0.0f;
  float frequency_ = 0.0f;
};

// The tokens that are left: key <= limit, mass >= least, |key - centre| <= radius.
struct TokenFilter {
  unsigned limit = kNumKeys - 1;
  Mass least = 0;
  unsigned centre = 0;
  unsigned radius = kNumKeys;

  __device__ __forceinline__ unsigned from_centre(unsigned key) const {
    return key > centre ? key - centre : centre - key;
  }
  // The mass of a token at a distance; 0 where it is not left.
  __device__ __forceinline__ Mass mass(float d) const {
    const unsigned key = key_of(d);
    if (key > limit || from_centre(key) > radius) return 0;
    const Mass mass = mass_of(d);
    return mass >= least ? mass : 0;
  }
};

// The part of a mass that a share keeps: from 1 to all of it.
__device__ __forceinline__ Mass share_of(float share, Mass total) {
  const double part = ceil(static_cast<double>(share) * static_cast<double>(total));
  if (!(part > 1.0)) return 1;
  return part >= static_cast<double>(total) ? total : static_cast<Mass>(part);
}

struct SampleShared {
  TeamShared team;
  SelectShared select;
};

// The top-k of a row; 0: all tokens.
__device__ __forceinline__ int top_k_of(const SampleArgs& args, int row) {
  const int k = args.top_k.values == nullptr ? args.top_k.value : args.top_k.values[row];
  return k > 0 && k < args.rows.width ? k : 0;
}

// A row of distances, and what filters leave of it.
template <int kThreads, class Blocks>
class RowFilter {
 public:
  __device__ __forceinline__ RowFilter(Blocks& team, SelectShared& shared, const float* x,
                                       float largest, float inverse_temperature)
      : team_(team),
        select_(team, shared),
        x_(x),
        largest_(largest),
        inverse_(inverse_temperature) {}

  // All filters in their order. `top_p_goal` other than 0: that mass instead of top_p of all.
  __device__ __forceinline__ void apply(const SampleArgs& args, Mass top_p_goal) {
    const int k = top_k_of(args, team_.row);
    if (k > 0) filter_.limit = top_k<2>(k);
    const float top_p = at_row(args.top_p, team_.row);
    if (top_p < 1.0f) filter_.limit = select_mass<2>(top_p, top_p_goal);
    const float min_p = at_row(args.min_p, team_.row);
    if (min_p > 0.0f) filter_.least = min_mass(min_p);
    const float typical_p = at_row(args.typical_p, team_.row);
    if (typical_p < 1.0f) typical(typical_p);
  }

  // The upper bits of a key that the limit of the first filter does not exceed, and top-p's goal
  // where it is the first.
  __device__ __forceinline__ unsigned bound(const SampleArgs& args, Mass& top_p_goal) {
    const int k = top_k_of(args, team_.row);
    if (k > 0) return top_k<1>(k);
    const unsigned upper = select_mass<1>(at_row(args.top_p, team_.row), 0);
    top_p_goal = select_.wanted();
    return upper;
  }

  __device__ __forceinline__ unsigned key(int i) const {
    return key_of(distance(x_[i], largest_, inverse_));
  }

  __device__ __forceinline__ Mass mass(int i) const {
    return filter_.mass(distance(x_[i], largest_, inverse_));
  }

 private:
  // What a selection adds up, as types: older NVRTC does not take generic lambdas here.
  struct KeyCounts {
    const RowFilter& row;
    template <class Add>
    __device__ __forceinline__ void operator()(const Add& add) const {
      row.each([&](float d) {
        const unsigned key = key_of(d);
        if (key < kNumKeys) add(key, 1);
      });
    }
  };
  struct KeyMasses {
    const RowFilter& row;
    template <class Add>
    __device__ __forceinline__ void operator()(const Add& add) const {
      row.each([&](float d) {
        const Mass mass = row.filter_.mass(d);
        if (mass != 0) add(row.filter_.from_centre(key_of(d)), mass);
      });
    }
  };

  template <int kLevels>
  __device__ __forceinline__ unsigned top_k(int k) {
    return select_.template run<kLevels>(KeyCounts{*this}, [&](Mass total) {
      return total < static_cast<Mass>(k) ? total : static_cast<Mass>(k);
    });
  }

  // At least the share p of the largest mass, 2^40.
  static __device__ __forceinline__ Mass min_mass(float p) {
    return static_cast<Mass>(static_cast<double>(fminf(p, 1.0f)) * 0x1p40);
  }

  // The smallest set of tokens around the mean distance that has the share p of all. That mean is
  // the entropy, but for a constant that all logarithms of probabilities share.
  __device__ __forceinline__ void typical(float p) {
    Mass total = 0;
    Mass moment = 0;  // in units of 2^-40
    each([&](float d) {
      const Mass mass = filter_.mass(d);
      total += mass;
      moment += mass * key_of(d) >> 20;  // 41 + 22 bits
    });
    total = team_.template reduce<SumMass>(total);
    team_.post(total, team_.template reduce<SumMass>(moment));
    const double mean = static_cast<double>(team_.template all<SumMass>(1)) * 0x1p20 /
                        static_cast<double>(team_.template all<SumMass>(0));
    filter_.centre = static_cast<unsigned>(rint(mean));
    filter_.radius = select_mass<2>(p, 0);
  }

  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < team_.count; i += kThreads)
      f(distance(x_[i], largest_, inverse_));
  }

  // Where the sum of masses is the share p of all, or a goal other than 0.
  template <int kLevels>
  __device__ __forceinline__ unsigned select_mass(float p, Mass goal) {
    return select_.template run<kLevels>(
        KeyMasses{*this}, [&](Mass total) { return goal != 0 ? goal : share_of(p, total); });
  }

  Blocks& team_;
  Select<kThreads, Blocks> select_;
  const float* x_;
  const float largest_;
  const float inverse_;
  TokenFilter filter_;
};

// Consecutive tokens of this thread: an odd number, so that the threads of a warp are in different
// banks.
struct Chunk {
  int first;
  int end;

  __device__ __forceinline__ Chunk(int count, int threads) {
    const int size = (count + threads - 1) / threads | 1;
    first = static_cast<int>(threadIdx.x) * size;
    end = min(first + size, count);
  }
};

// Tokens whose keys have no larger upper bits than `bound`, in the order of their indices, to the
// list of block 0: kShortlist logits, then as many ids. How many; above kShortlist there is none.
template <int kThreads, class Blocks, class KeyAt>
__device__ __forceinline__ Mass list_tokens(Blocks& team, const KeyAt& key_at, const float* x,
                                            unsigned bound, float* list) {
  const Chunk chunk(team.count, kThreads);
  Mass mine = 0;
#pragma unroll 1
  for (int i = chunk.first; i < chunk.end; ++i) mine += key_at(i) >> 11 <= bound ? 1 : 0;
  team.post(team.template reduce<SumMass>(mine));
  const Mass total = team.template all<SumMass>();
  if (total > kShortlist) return total;
  Mass to = team.scan(mine);
  for (int i = 0; i < team.rank; ++i) to += team.posted(i);
#pragma unroll 1
  for (int i = chunk.first; i < chunk.end; ++i) {
    if (key_at(i) >> 11 > bound) continue;
    store_shared_of(list + to, 0, x[i]);
    store_shared_of(reinterpret_cast<int*>(list) + kShortlist + to, 0, team.first + i);
    ++to;
  }
  return total;
}

// A number in [0, 2^64). A stream per seed; where all rows share one, the row is the upper part of
// the position.
__device__ __forceinline__ unsigned long long random_word(const SampleArgs& args, int row) {
  if (args.uniforms != nullptr) {
    const float u = args.uniforms[row];
    if (!(u < 1.0f)) return ~0ull;
    return u > 0.0f ? static_cast<unsigned long long>(static_cast<double>(u) * 0x1p64) : 0;
  }
  const long long step = args.steps == nullptr ? args.step : args.steps[row];
  const bool own = args.seed.values != nullptr;
  const auto seed = static_cast<unsigned long long>(own ? args.seed.values[row] : args.seed.value);
  const RandomStream stream{{static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)},
                            static_cast<unsigned long long>(step),
                            own ? 0u : static_cast<unsigned>(row),
                            0};
  return word_pair(random_words(stream, 0, 0), 0);
}

// The last step of a row: nobody reads its step, or this block's memory, any more.
template <class Blocks>
__device__ __forceinline__ void finish_row(const Blocks& team, const SampleArgs& args) {
  team.sync();
  if (args.steps != nullptr && team.rank == 0 && threadIdx.x == 0) args.steps[team.row] += 1;
}

// The token at which the running mass exceeds a random part of all; `ids` of places, if not those
// of the slice.
template <int kThreads, class Blocks, class MassAt>
__device__ __forceinline__ void draw_token(Blocks& team, const MassAt& mass_at,
                                           const SampleArgs& args, const int* ids = nullptr) {
  const Chunk chunk(team.count, kThreads);
  Mass mine = 0;
#pragma unroll 1
  for (int i = chunk.first; i < chunk.end; ++i) mine += mass_at(i);
  const Mass block = team.template reduce<SumMass>(mine);
  team.post(block);
  const Mass total = team.template all<SumMass>();
  Mass before = 0;
  for (int i = 0; i < team.rank; ++i) before += team.posted(i);
  if (args.tokens != nullptr) {
    const Mass target = __umul64hi(random_word(args, team.row), total);
    if (before <= target && target < before + block) {
      Mass sum = before + team.scan(mine);
      if (sum <= target && target < sum + mine) {
        int i = chunk.first;
        for (;; ++i) {
          sum += mass_at(i);
          if (sum > target) break;
        }
        args.tokens[team.row] = ids == nullptr ? team.first + i : ids[i];
      }
    }
  }
  if (args.probs != nullptr) {
    float* probs = args.probs + static_cast<long long>(team.row) * args.rows.width + team.first;
    for (int i = static_cast<int>(threadIdx.x); i < team.count; i += kThreads)
      probs[i] = __fdiv_rn(static_cast<float>(mass_at(i)), static_cast<float>(total));
  }
}

// The largest token alone; `top` is -1 where there is none.
template <int kThreads, class Blocks>
__device__ __forceinline__ void take_token(const Blocks& team, const SampleArgs& args, int top) {
  if (args.tokens != nullptr && team.rank == 0 && threadIdx.x == 0) args.tokens[team.row] = top;
  if (args.probs == nullptr) return;
  float* probs = args.probs + static_cast<long long>(team.row) * args.rows.width + team.first;
  for (int i = static_cast<int>(threadIdx.x); i < team.count; i += kThreads)
    probs[i] = team.first + i == top ? 1.0f : 0.0f;
}

template <class T, int kV, int kThreads, bool kClustered>
__global__ void __launch_bounds__(kThreads) sample_rows(const SampleArgs args) {
  using Blocks = Team<kThreads, kClustered>;
  SampleShared& shared = block_shared<SampleShared>();
  Blocks team(args.rows, shared.team);
  const int row = team.row;
  const float temperature = at_row(args.temperature, row);
  float* x = slice_memory(team, args.rows);
  const LogitProcessor process(args, row);
  const Mass mine = load_slice<T, kV, kThreads>(team, args.rows, x, process);
  team.post(team.template reduce<MaxMass>(mine));
  const Mass best = team.template all<MaxMass>();
  const float largest = value_of(best);
  if (largest == lowest_logit() || !(temperature > 0.0f)) {
    take_token<kThreads>(team, args, largest == lowest_logit() ? -1 : index_of(best));
  } else {
    const float inverse = fminf(__fdiv_rn(1.0f, temperature), 3.4028235e38f);
    RowFilter<kThreads, Blocks> filter(team, shared.select, x, largest, inverse);
    if constexpr (kClustered) {
      if (args.probs == nullptr && (top_k_of(args, row) > 0 || at_row(args.top_p, row) < 1.0f)) {
        Mass top_p_goal = 0;
        const unsigned bound = filter.bound(args, top_p_goal);
        float* list = reinterpret_cast<float*>(dynamic_shared()) +
                      (args.rows.cache == nullptr ? args.rows.slice : 0);
        const auto key_at = [&](int i) { return filter.key(i); };
        const Mass listed = list_tokens<kThreads>(team, key_at, x, bound, list);
        if (listed <= kShortlist) {
          team.sync();
          if (team.rank != 0) return;
          using Alone = Team<kThreads, false>;
          Alone alone(row, static_cast<int>(listed), shared.team);
          RowFilter<kThreads, Alone> rest(alone, shared.select, list, largest, inverse);
          rest.apply(args, top_p_goal);
          draw_token<kThreads>(
              alone, [&](int i) { return rest.mass(i); }, args,
              reinterpret_cast<const int*>(list) + kShortlist);
          finish_row(alone, args);
          return;
        }
      }
    }
    filter.apply(args, 0);
    draw_token<kThreads>(team, [&](int i) { return filter.mass(i); }, args);
  }
  finish_row(team, args);
}

}  // namespace gpk
