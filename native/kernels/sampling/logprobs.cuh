// log(softmax(logits)) at a token of each row, and at the `count` largest of it: those one by one,
// each the largest below the last, the first of equal ones. NaN counts as -inf; a token that is no
// column, or a row of -inf, gives NaN; where a row has no more tokens the id is -1 and the
// logarithm -inf. Grid: rows * blocks, a team (team.cuh) per row. Logits are read once. Numerics:
// mass.cuh.
#pragma once

#include "sampling/team.cuh"

namespace gpk {

template <class T, int kV, int kThreads, bool kClustered>
__global__ void __launch_bounds__(kThreads) logprob_rows(const LogprobArgs args) {
  Team<kThreads, kClustered> team(args.rows, block_shared<TeamShared>());
  const long long row = team.row;
  float* x = slice_memory(team, args.rows);
  const auto plain = [](float e, int) { return e != e ? lowest_logit() : __fadd_rn(e, 0.0f); };
  const Mass mine = load_slice<T, kV, kThreads>(team, args.rows, x, plain);
  team.post(team.template reduce<MaxMass>(mine));
  Mass best = team.template all<MaxMass>();
  const float largest = value_of(best);
  Mass part = 0;
  for (int i = static_cast<int>(threadIdx.x); i < team.count; i += kThreads) {
    const float d = distance(x[i], largest, 1.0f);
    if (key_of(d) < kNumKeys) part += mass_of(d);
  }
  team.post(team.template reduce<SumMass>(part));
  const float log_total = logf(static_cast<float>(team.template all<SumMass>()) * 0x1p-40f);
  const auto logprob = [&](float e) { return e == largest ? -log_total : e - largest - log_total; };
  const bool writes = team.rank == 0 && threadIdx.x == 0;
  if (writes) {
    const int token = args.tokens[row];
    const T* logits = static_cast<const T*>(args.rows.logits) + row * args.rows.logits_row;
    const bool known = token >= 0 && token < args.rows.width && largest > lowest_logit();
    args.chosen[row] =
        known ? logprob(plain(to_compute(logits[token]), 0)) : __int_as_float(0x7fffffff);
  }
  for (int n = 0; n < args.count; ++n) {
    const float e = value_of(best);
    if (writes) {
      args.top_ids[row * args.count + n] = e == lowest_logit() ? -1 : index_of(best);
      args.top[row * args.count + n] = e == lowest_logit() ? e : logprob(e);
    }
    if (n + 1 == args.count) break;
    Mass next = 0;
    for (int i = static_cast<int>(threadIdx.x); i < team.count; i += kThreads) {
      const Mass rank = rank_of(x[i], team.first + i);
      if (rank < best && rank > next) next = rank;
    }
    team.post(team.template reduce<MaxMass>(next));
    best = team.template all<MaxMass>();
    if (best == 0) best = rank_of(lowest_logit(), 0);
  }
  if constexpr (kClustered) team.sync();
}

}  // namespace gpk
