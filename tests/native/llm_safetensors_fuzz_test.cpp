// Files with mutated headers: a typed error, or a load with the bytes that the header names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "base/error.h"
#include "core/array.h"
#include "device/host_copy.h"
#include "expect.h"
#include "llm/weight_set.h"
#include "llm_fixture.h"

namespace gpk::llm {
namespace {

constexpr Device kHost{DeviceKind::kCpu, 0};

// Files that are right, in the styles that writers have.
std::vector<std::string> corpus() {
  const std::string big =
      R"({"__metadata__":{"format":"pt"},"model.layers.0.w":{"dtype":"BF16","shape":[4,8],)"
      R"("data_offsets":[0,64]},"model.norm":{"dtype":"F32","shape":[3],"data_offsets":)"
      R"([64,76]},"s":{"dtype":"I64","shape":[],"data_offsets":[76,84]},"e":{"dtype":"U8",)"
      R"("shape":[0,9],"data_offsets":[84,84]}})";
  return {
      file_of("{}"),
      file_of("{}      "),
      file_of(R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}})", pattern(16)),
      file_of(R"({"a":{"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[4,8]},"b":{"dtype":"BOOL",)"
              R"("shape":[4],"data_offsets":[0,4]}})",
              pattern(8)),
      file_of(big, pattern(84)),
      file_of(big + "   ", pattern(84)),
      file_of(R"({"\u0061":{"shape":[1],"data_offsets":[0,8],"dtype":"C64"}})", pattern(8))};
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutate(std::string bytes) {
    for (std::size_t i = 1 + below(4); i > 0; --i) change(bytes);
    if (below(4) != 0) fix_length(bytes);  // most get past the first check
    return bytes;
  }
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

 private:
  static constexpr const char* kTokens[] = {"0",
                                            "-1",
                                            "1e9",
                                            "18446744073709551615",
                                            "9223372036854775807",
                                            "9223372036854775808",
                                            "4294967296",
                                            "{",
                                            "}",
                                            "[",
                                            "]",
                                            ",",
                                            ":",
                                            "\"",
                                            "\\u0000",
                                            "\\ud800",
                                            "null",
                                            "true",
                                            "\"F32\"",
                                            "\"F4\"",
                                            "\"XX\"",
                                            "\"dtype\"",
                                            "\"a\"",
                                            "[0,0]",
                                            "[1,1]",
                                            " ",
                                            "\xFF",
                                            "1.5"};

  void change(std::string& bytes) {
    const std::size_t at = bytes.empty() ? 0 : below(bytes.size());
    switch (below(7)) {
      case 0: bytes[at] = static_cast<char>(random_()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 2: bytes.erase(at, 1 + below(8)); break;
      case 3: bytes.insert(at, kTokens[below(std::size(kTokens))]); break;
      case 4: replace_number(bytes, at); break;
      case 5: bytes.insert(at, bytes.substr(below(bytes.size()), below(40))); break;
      default: bytes.resize(below(bytes.size() + 1)); break;
    }
    if (bytes.empty()) bytes = "x";
  }

  void replace_number(std::string& bytes, std::size_t from) {
    const std::size_t first = bytes.find_first_of("0123456789", std::max<std::size_t>(from, 8));
    if (first == std::string::npos) return;
    const std::size_t last = bytes.find_first_not_of("0123456789", first);
    bytes.replace(first, (last == std::string::npos ? bytes.size() : last) - first,
                  below(2) == 0 ? kTokens[below(7)] : std::to_string(below(128)));
  }

  // The length of what looks like the header.
  static void fix_length(std::string& bytes) {
    const std::size_t end = bytes.rfind('}');
    if (end == std::string::npos || end < 8) return;
    const std::uint64_t length = end + 1 - 8;
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  }

  std::mt19937_64 random_;
};

// Whether the header is right, without a file.
bool parses(const std::string& bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(i < bytes.size() ? bytes[i] : 0);
  if (bytes.size() < 8 || length > bytes.size() - 8) return false;
  try {
    const std::string header = bytes.substr(8, static_cast<std::size_t>(length));
    (void)parse_safetensors_header(header, bytes.size(), "f");
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

// True: it loaded.
bool check(const Folder& folder, const std::string& bytes) {
  const std::string path = folder.write("f.safetensors", bytes);
  try {
    const auto set = WeightSet::open(path);
    std::vector<std::string> loadable;
    for (const std::string& name : set->names())
      if (set->info(name).dtype) loadable.push_back(name);
    for (const auto& [name, array] : set->load(loadable, kHost)) {
      const TensorInfo& info = set->info(name);
      std::string loaded(array.nbytes(), '\0');
      device::to_host(array, loaded.data());
      EXPECT_EQ(loaded, bytes.substr(static_cast<std::size_t>(info.offset), loaded.size()));
    }
    return true;
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("safetensors: ")) << error.what();
    return false;
  }
}

void run(std::uint64_t seed, unsigned count) {
  SCOPED_TRACE(seed);
  const Folder folder("fuzz");
  const std::vector<std::string> good = corpus();
  for (const std::string& bytes : good) ASSERT_TRUE(check(folder, bytes));
  Mutator mutator(seed);
  unsigned num_loaded = 0;
  for (unsigned i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    const std::string bytes = mutator.mutate(good[mutator.below(good.size())]);
    const bool right = parses(bytes);
    if (!right && i % 8 != 0) continue;  // writing a file takes longer than all the rest
    EXPECT_EQ(check(folder, bytes), right);
    if (right) ++num_loaded;
  }
  EXPECT_GT(num_loaded, 0u);  // mutations that do no harm
  EXPECT_LT(num_loaded, count / 2);
}

TEST(SafeTensorsFuzz, TheSameFiles) { run(20260101, rounds(10'000)); }

// A new seed in every run; GPK_FUZZ_SEED repeats one.
TEST(SafeTensorsFuzz, NewFiles) {
  const char* seed = std::getenv("GPK_FUZZ_SEED");
  const bool given = seed != nullptr && *seed >= '0' && *seed <= '9';
  run(given ? std::strtoull(seed, nullptr, 10) : std::random_device{}(), rounds(2'000));
}

}  // namespace
}  // namespace gpk::llm
