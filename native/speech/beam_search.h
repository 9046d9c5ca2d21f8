// Beam search of one text: which beams go on, and which texts are complete. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gpk::speech {

// As Transformers defines it: twice as many candidates as beams; of those the best `num_beams` that
// have not ended go on. A complete text has the mean of its log-probabilities as its score, with
// the length raised to `length_penalty`. It ends when the best beam could not improve the worst of
// `num_beams` complete texts by its score so far.
class BeamSearch {
 public:
  struct Options {
    std::int64_t num_beams = 5;
    std::int64_t max_tokens = 0;
    std::int32_t eos = 0;
    double length_penalty = 1.0;
  };
  // A beam of the next step: the token that is added to one of the last step.
  struct Beam {
    std::size_t parent;
    std::int32_t token;
  };
  // Tokens and their log-probabilities after one beam, largest first.
  using Candidates = std::vector<std::pair<std::int32_t, float>>;

  explicit BeamSearch(const Options& options) : options_(options) {}

  // How many candidates step() wants of each beam.
  [[nodiscard]] std::int64_t num_candidates() const noexcept { return 2 * options_.num_beams; }

  // The next beams; none when it is done. At first there is one beam, the prompt.
  std::vector<Beam> step(std::span<const Candidates> candidates);
  [[nodiscard]] bool is_done() const noexcept { return done_; }

  // The tokens of a beam of the last step.
  [[nodiscard]] const std::vector<std::int32_t>& tokens(std::size_t beam) const {
    return running_.at(beam).tokens;
  }

  struct Text {
    std::vector<std::int32_t> tokens;  // with eos, where it ended
    double score = 0.0;
  };
  // The best complete text.
  [[nodiscard]] const Text& best() const { return finished_.front(); }

 private:
  [[nodiscard]] double score(double sum, std::int64_t length) const;

  Options options_;
  std::vector<Text> running_{{}};  // score: sums of log-probabilities
  std::vector<Text> finished_;     // by score, largest first
  bool can_improve_ = true;
  bool done_ = false;
};

}  // namespace gpk::speech
