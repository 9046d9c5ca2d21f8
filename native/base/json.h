// JSON, read strictly: RFC 8259, UTF-8, no duplicate names, a depth limit. Writing is in
// base/trace_json.h.
//
//   const Json config = parse_json(text, "config.json");
//   if (const Json* heads = config.find("num_attention_heads")) use(heads->integer());
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace gpk::inline base {

class Json {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kReal, kString, kArray, kObject };
  using Items = std::vector<Json>;
  using Members = std::vector<std::pair<std::string, Json>>;

  Json() = default;  // null
  explicit Json(bool value) : value_(value) {}
  explicit Json(std::int64_t value) : value_(value) {}
  explicit Json(std::uint64_t value) : value_(value) {}
  explicit Json(double value) : value_(value) {}
  explicit Json(std::string value) : value_(std::move(value)) {}
  explicit Json(Items items) : value_(std::move(items)) {}
  // nullopt and the name in `duplicate` where two members have the same name.
  static std::optional<Json> object(Members members, std::string* duplicate);

  [[nodiscard]] Kind kind() const noexcept;
  [[nodiscard]] bool is_null() const noexcept { return kind() == Kind::kNull; }

  // The value; nothing where it is of another kind or does not fit exactly.
  [[nodiscard]] std::optional<bool> boolean() const noexcept;
  [[nodiscard]] std::optional<std::int64_t> integer() const noexcept;
  [[nodiscard]] std::optional<std::uint64_t> unsigned_integer() const noexcept;
  [[nodiscard]] std::optional<double> number() const noexcept;  // integers are rounded
  [[nodiscard]] const std::string* string() const noexcept;
  [[nodiscard]] const Items* items() const noexcept;
  [[nodiscard]] const Members* members() const noexcept;  // in the order of the text

  // A member of an object; nullptr when there is none or this is no object.
  [[nodiscard]] const Json* find(std::string_view name) const noexcept;

 private:
  struct Object {
    Members members;
    std::vector<std::uint32_t> by_name;  // positions, sorted by name
  };
  // A real that was written as an integer too large for 64 bits is a double.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Items,
               std::shared_ptr<const Object>>
      value_;
};

// "null", "a boolean", "an integer", "a number", "a string", "an array", "an object".
const char* to_string(Json::Kind kind) noexcept;

struct JsonLimits {
  int max_depth = 64;
  std::size_t max_values = std::size_t{1} << 23;  // bounds the memory of hostile text
};

// One value and nothing after it. Throws InvalidArgument "<what>: line 3, column 7: ...".
Json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits = {});

}  // namespace gpk::inline base
