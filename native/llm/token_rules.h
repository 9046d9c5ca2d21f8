// Which tokens may come next in a transcript, by those before it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace gpk::llm {

struct TokenRules {
  std::vector<std::int32_t> suppressed;        // never drawn
  std::vector<std::int32_t> begin_suppressed;  // not drawn as the first token
  std::int32_t eos = 0;                        // texts are below it
  std::int32_t first_timestamp = -1;           // timestamps are from it on; -1: no timestamps
  std::int32_t max_initial_timestamp = -1;     // of the first token, in timestamps; -1: any
  friend bool operator==(const TokenRules&, const TokenRules&) = default;
};

// Of the tokens drawn so far, what ops::timestamp_rules needs.
struct TokenHistory {
  std::int32_t count = -1;  // -1: none, and the next logits are those of the first
  std::int32_t last = 0;
  std::int32_t before = 0;  // the one before the last
  std::int32_t newest = 0;  // timestamp; 0: none

  [[nodiscard]] TokenHistory after(std::int32_t token, const TokenRules& rules) const {
    const bool timed = rules.first_timestamp >= 0 && token >= rules.first_timestamp;
    return {count + 1, token, last, timed ? token : newest};
  }
};
inline constexpr int kNumHistoryFields = 4;

}  // namespace gpk::llm
