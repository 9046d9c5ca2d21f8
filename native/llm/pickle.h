// The data of a pickle, read without running any of it. A pickle is a program of a stack machine;
// this reads the instructions that lists of tensors need and refuses all others by name. Nothing is
// imported and nothing is called: what a pickle refers to stays a name, a call stays a record of
// the name and its arguments.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace gpk::llm {

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,
  kFloat,
  kText,
  kTuple,
  kList,
  kDict,        // items: key, value, key, value ...
  kGlobal,      // text: "module name"
  kCall,        // items: the global, its arguments (a tuple)
  kPersistent,  // items: what stands for an object that is stored elsewhere
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  std::int64_t number = 0;           // bool, int
  double real = 0.0;                 // float
  std::string_view text;             // of the pickle's bytes
  std::vector<std::uint32_t> items;  // indices into Pickle::values
};

struct Pickle {
  std::vector<PickleValue> values;
  std::deque<std::string> names;  // of globals; the text of their values
  std::uint32_t root = 0;

  [[nodiscard]] const PickleValue& operator[](std::uint32_t index) const { return values[index]; }
};

inline constexpr std::size_t kMaxPickleBytes = 32'000'000;
inline constexpr std::size_t kMaxPickleValues = 2'000'000;

// Whether a global may appear: "collections OrderedDict".
using GlobalFilter = bool (*)(std::string_view name);

// `bytes` has to outlive the result. Throws InvalidArgument that starts with `what` and names the
// instruction and its offset: instructions not in the list above, globals that `allowed` refuses,
// a stack or a memo that does not hold what is taken, more values than kMaxPickleValues, bytes
// missing or left over.
Pickle parse_pickle(std::string_view bytes, GlobalFilter allowed, const std::string& what);

}  // namespace gpk::llm
