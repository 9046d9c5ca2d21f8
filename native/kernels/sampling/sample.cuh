// A token of each row, drawn from softmax(x / temperature) after the filters, where x are the
// logits with penalties, bias and mask. Filters are bounds of keys and masses (mass.cuh) found by
// select.cuh: top-k, top-p, min-p, typical. The draw is the first token, by index, at which the
// running mass exceeds a random 64-bit word times the total. Temperature 0: the largest x, the
// first of equal ones. NaN counts as -inf; -1 where no token is left.
// Grid: rows * blocks, a team (team.cuh) per row. Logits are read once. Numerics: penalties in
// float32, sums exact.
#pragma once

#include "common/philox.cuh"
#include "sampling/select.cuh"

namespace gpk {

__device__ __forceinline__ float at_row(const RowFloat& of, long long row) {
  return of.values == nullptr ? of.value : of.values[row];
}

// Penalties of seen tokens, bias, mask.
class LogitProcessor {
 public:
  __device__ __forceinline__ LogitProcessor(const SampleArgs& args, long long row)
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

// A row of distances, and the filter that grows with every step.
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

  __device__ __forceinline__ void top_k(int k) {
    filter_.limit = select_.run(
        [&](const auto& add) {
          each([&](float d) {
            const unsigned key = key_of(d);
            if (key < kNumKeys) add(key, 1);
          });
        },
        [&](Mass total) { return total < static_cast<Mass>(k) ? total : static_cast<Mass>(k); });
  }

  // The smallest set of largest masses that has the share p of all.
  __device__ __forceinline__ void top_p(float p) { filter_.limit = select_mass(p); }

  // At least the share p of the largest mass, 2^40.
  __device__ __forceinline__ void min_p(float p) {
    filter_.least = static_cast<Mass>(static_cast<double>(p) * 0x1p40);
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
    filter_.radius = select_mass(p);
  }

  __device__ __forceinline__ Mass mass(int i) const {
    return filter_.mass(distance(x_[i], largest_, inverse_));
  }

 private:
  template <class F>
  __device__ __forceinline__ void each(const F& f) const {
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < team_.count; i += kThreads)
      f(distance(x_[i], largest_, inverse_));
  }

  __device__ __forceinline__ unsigned select_mass(float p) {
    return select_.run(
        [&](const auto& add) {
          each([&](float d) {
            const Mass mass = filter_.mass(d);
            if (mass != 0) add(filter_.from_centre(key_of(d)), mass);
          });
        },
        [&](Mass total) { return share_of(p, total); });
  }

  Blocks& team_;
  Select<kThreads, Blocks> select_;
  const float* x_;
  const float largest_;
  const float inverse_;
  TokenFilter filter_;
};

// The token at which the running mass exceeds word / 2^64 of all. Thread t has `chunk` consecutive
// tokens, an odd number, so that the threads of a warp are in different banks.
template <int kThreads, class Blocks, class MassAt>
__device__ __forceinline__ void draw_token(Blocks& team, const MassAt& mass_at,
                                           const SampleArgs& args, unsigned long long word) {
  const int chunk = (team.count + kThreads - 1) / kThreads | 1;
  const int first = static_cast<int>(threadIdx.x) * chunk;
  const int end = min(first + chunk, team.count);
  Mass mine = 0;
  for (int i = first; i < end; ++i) mine += mass_at(i);
  const Mass block = team.template reduce<SumMass>(mine);
  team.post(block);
  const Mass total = team.template all<SumMass>();
  Mass before = 0;
  for (int i = 0; i < team.rank; ++i) before += team.posted(i);
  if (args.tokens != nullptr) {
    const Mass target = __umul64hi(word, total);
    if (before <= target && target < before + block) {
      Mass sum = before + team.scan(mine);
      if (sum <= target && target < sum + mine) {
        int i = first;
        for (;; ++i) {
          sum += mass_at(i);
          if (sum > target) break;
        }
        args.tokens[team.row] = team.first + i;
      }
    }
  }
  if (args.probs != nullptr) {
    float* probs = args.probs + team.row * args.rows.width + team.first;
    for (int i = static_cast<int>(threadIdx.x); i < team.count; i += kThreads)
      probs[i] = __fdiv_rn(static_cast<float>(mass_at(i)), static_cast<float>(total));
  }
}

// The largest token alone; `top` is -1 where there is none.
template <int kThreads, class Blocks>
__device__ __forceinline__ void take_token(const Blocks& team, const SampleArgs& args, int top) {
  if (args.tokens != nullptr && team.rank == 0 && threadIdx.x == 0) args.tokens[team.row] = top;
  if (args.probs == nullptr) return;
  float* probs = args.probs + team.row * args.rows.width + team.first;
  for (int i = static_cast<int>(threadIdx.x); i < team.count; i += kThreads)
    probs[i] = team.first + i == top ? 1.0f : 0.0f;
}

// A number in [0, 2^64). A stream per seed; where all rows share one, the row is the upper part of
// the position.
__device__ __forceinline__ unsigned long long random_word(const SampleArgs& args, long long row,
                                                          long long step) {
  if (args.uniforms != nullptr) {
    const float u = args.uniforms[row];
    if (!(u < 1.0f)) return ~0ull;
    return u > 0.0f ? static_cast<unsigned long long>(static_cast<double>(u) * 0x1p64) : 0;
  }
  const bool own = args.seed.values != nullptr;
  const auto seed = static_cast<unsigned long long>(own ? args.seed.values[row] : args.seed.value);
  const RandomStream stream{{static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32)},
                            static_cast<unsigned long long>(step),
                            own ? 0u : static_cast<unsigned>(row),
                            0};
  return word_pair(random_words(stream, 0, 0), 0);
}

template <class T, int kV, int kThreads, bool kClustered>
__global__ void __launch_bounds__(kThreads) sample_rows(const SampleArgs args) {
  using Blocks = Team<kThreads, kClustered>;
  SampleShared& shared = block_shared<SampleShared>();
  Blocks team(args.rows, shared.team);
  const long long row = team.row;
  const float temperature = at_row(args.temperature, row);
  const long long step = args.steps == nullptr ? args.step : args.steps[row];
  float* x = slice_memory(team, args.rows);
  const LogitProcessor process(args, row);
  const Mass mine = load_slice<T, kV, kThreads>(team, args.rows, x, process);
  team.post(team.template reduce<MaxMass>(mine));
  if (args.steps != nullptr && team.rank == 0 && threadIdx.x == 0) args.steps[row] = step + 1;
  const Mass best = team.template all<MaxMass>();
  const float largest = value_of(best);
  if (largest == lowest_logit() || !(temperature > 0.0f)) {
    take_token<kThreads>(team, args, largest == lowest_logit() ? -1 : index_of(best));
  } else {
    const float inverse = fminf(__fdiv_rn(1.0f, temperature), 3.4028235e38f);
    RowFilter<kThreads, Blocks> filter(team, shared.select, x, largest, inverse);
    const int top_k = args.top_k.values == nullptr ? args.top_k.value : args.top_k.values[row];
    const float top_p = at_row(args.top_p, row);
    const float min_p = at_row(args.min_p, row);
    const float typical_p = at_row(args.typical_p, row);
    if (top_k > 0 && top_k < args.rows.width) filter.top_k(top_k);
    if (top_p < 1.0f) filter.top_p(top_p);
    if (min_p > 0.0f) filter.min_p(fminf(min_p, 1.0f));
    if (typical_p < 1.0f) filter.typical(typical_p);
    draw_token<kThreads>(
        team, [&](int i) { return filter.mass(i); }, args, random_word(args, row, step));
  }
  if constexpr (kClustered) team.sync();  // others may still read this block's memory
}

}  // namespace gpk
