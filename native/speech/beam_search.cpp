#include "speech/beam_search.h"

#include <algorithm>
#include <cmath>

namespace gpk::speech {

double BeamSearch::score(double sum, std::int64_t length) const {
  return sum / std::pow(static_cast<double>(length), options_.length_penalty);
}

std::vector<BeamSearch::Beam> BeamSearch::step(std::span<const Candidates> candidates) {
  struct Next {
    Beam beam;
    double sum;
  };
  std::vector<Next> all;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    for (const auto& [token, logprob] : candidates[i])
      if (token >= 0) all.push_back({{i, token}, running_[i].score + logprob});
  std::stable_sort(all.begin(), all.end(),
                   [](const Next& a, const Next& b) { return a.sum > b.sum; });
  all.resize(std::min(all.size(), static_cast<std::size_t>(num_candidates())));

  const std::size_t num_beams = static_cast<std::size_t>(options_.num_beams);
  const auto length = static_cast<std::int64_t>(running_.front().tokens.size()) + 1;
  const bool is_last = length >= options_.max_tokens;
  std::vector<Text> running;
  std::vector<Beam> beams;
  for (std::size_t i = 0; i < all.size(); ++i) {
    Text text{running_[all[i].beam.parent].tokens, all[i].sum};
    text.tokens.push_back(all[i].beam.token);
    if (all[i].beam.token != options_.eos && !is_last) {
      if (running.size() == num_beams) continue;
      running.push_back(std::move(text));
      beams.push_back(all[i].beam);
    } else if (i < num_beams && can_improve_) {
      text.score = score(text.score, length);
      const auto at =
          std::upper_bound(finished_.begin(), finished_.end(), text,
                           [](const Text& a, const Text& b) { return a.score > b.score; });
      finished_.insert(at, std::move(text));
      if (finished_.size() > num_beams) finished_.pop_back();
    }
  }
  const bool is_full = finished_.size() == num_beams;
  if (!running.empty() && is_full)
    can_improve_ = can_improve_ && score(running.front().score, length) > finished_.back().score;
  done_ = running.empty() || !can_improve_;
  running_ = std::move(running);
  if (done_ && finished_.empty()) finished_.push_back({});
  if (done_) beams.clear();
  return beams;
}

}  // namespace gpk::speech
