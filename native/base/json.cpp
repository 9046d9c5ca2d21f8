#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <system_error>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"

namespace gpk::inline base {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, unsigned code) {
  const auto byte = [&](unsigned bits) { out += static_cast<char>(bits); };
  if (code < 0x80) {
    byte(code);
    return;
  }
  if (code < 0x800) {
    byte(0xC0U | (code >> 6));
  } else {
    if (code < 0x10000) {
      byte(0xE0U | (code >> 12));
    } else {
      byte(0xF0U | (code >> 18));
      byte(0x80U | ((code >> 12) & 63U));
    }
    byte(0x80U | ((code >> 6) & 63U));
  }
  byte(0x80U | (code & 63U));
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& what, const JsonLimits& limits)
      : text_(text), what_(what), limits_(limits) {}

  Json document() {
    at_ = utf8_prefix(text_);
    if (at_ < text_.size()) fail("a byte that is not UTF-8");
    at_ = 0;
    Json result = value(0);
    skip_space();
    if (at_ < text_.size()) fail("text after the end of the value");
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view problem) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t start = before.rfind('\n') + 1;  // npos + 1 == 0
    throw InvalidArgument(cat(what_, ": line ", line, ", column ", at_ - start + 1, ": ", problem));
  }

  [[nodiscard]] bool at_end() const { return at_ == text_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[at_]; }

  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r'))
      ++at_;
  }

  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  void expect(std::string_view token) {
    skip_space();
    if (!take(token))
      fail(at_end() ? cat("the text ends, expected '", token, "'") : cat("expected '", token, "'"));
  }

  Json value(int depth) {
    skip_space();
    if (at_end()) fail("the text ends, expected a value");
    if (depth > limits_.max_depth) fail(cat("nested more than ", limits_.max_depth, " deep"));
    if (++num_values_ > limits_.max_values) fail(cat("more than ", limits_.max_values, " values"));
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return Json(string());
      default: break;
    }
    if (take("null")) return {};
    if (take("true")) return Json(true);
    if (take("false")) return Json(false);
    if (peek() == '-' || is_digit(peek())) return number();
    fail("expected a value");
  }

  Json object(int depth) {
    expect("{");
    Json::Members members;
    skip_space();
    if (!take("}")) {
      do {
        skip_space();
        if (peek() != '"') fail("expected a name in double quotes");
        std::string name = string();
        expect(":");
        members.emplace_back(std::move(name), value(depth + 1));
        skip_space();
      } while (take(","));
      expect("}");
    }
    std::string duplicate;
    auto result = Json::object(std::move(members), &duplicate);
    if (!result) fail(cat("the name \"", shorten(duplicate, 200), "\" occurs twice"));
    return *std::move(result);
  }

  Json array(int depth) {
    expect("[");
    Json::Items items;
    skip_space();
    if (take("]")) return Json(std::move(items));
    do {
      items.push_back(value(depth + 1));
      skip_space();
    } while (take(","));
    expect("]");
    return Json(std::move(items));
  }

  std::string string() {
    expect("\"");
    std::string out;
    while (true) {
      if (at_end()) fail("the text ends within a string");
      const char c = peek();
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character within a string");
      ++at_;
      if (c == '"') return out;
      if (c == '\\')
        escape(out);
      else
        out += c;
    }
  }

  void escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kCodes = "\"\\/\b\f\n\r\t";
    const char c = peek();
    if (const auto which = kNames.find(c); c != '\0' && which != std::string_view::npos) {
      ++at_;
      out += kCodes[which];
    } else if (take("u")) {
      append_utf8(out, code_point());
    } else {
      fail("an unknown escape");
    }
  }

  unsigned code_point() {
    const unsigned high = hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take("\\u")) fail("a lone surrogate");
    const unsigned low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("a lone surrogate");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  unsigned hex4() {
    unsigned code = 0;
    const char* const first = text_.data() + at_;
    const std::size_t length = std::min<std::size_t>(4, text_.size() - at_);
    const auto [end, error] = std::from_chars(first, first + length, code, 16);
    if (error != std::errc() || end != first + 4) fail("expected four hexadecimal digits");
    at_ += 4;
    return code;
  }

  void digits() {
    if (!is_digit(peek())) fail("expected a digit");
    while (is_digit(peek())) ++at_;
  }

  Json number() {
    const std::size_t start = at_;
    take("-");
    if (peek() == '0' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))
      fail("a number with a leading zero");
    digits();
    bool whole = true;
    if (take(".")) {
      whole = false;
      digits();
    }
    if (take("e") || take("E")) {
      whole = false;
      if (!take("+")) take("-");
      digits();
    }
    const char* const first = text_.data() + start;
    const char* const last = text_.data() + at_;
    if (std::int64_t i = 0; whole && std::from_chars(first, last, i).ec == std::errc())
      return Json(i);
    if (std::uint64_t u = 0;
        whole && *first != '-' && std::from_chars(first, last, u).ec == std::errc())
      return Json(u);
    double real = 0.0;
    if (std::from_chars(first, last, real).ec != std::errc()) {
      at_ = start;
      fail("a number out of range");
    }
    return Json(real);
  }

  const std::string_view text_;
  const std::string& what_;
  const JsonLimits limits_;
  std::size_t at_ = 0;
  std::size_t num_values_ = 0;
};

}  // namespace

std::optional<Json> Json::object(Members members, std::string* duplicate) {
  auto object = std::make_shared<Object>();
  object->members = std::move(members);
  const Members& all = object->members;
  object->by_name.resize(all.size());
  std::iota(object->by_name.begin(), object->by_name.end(), 0U);
  const auto name = [&](std::uint32_t i) -> const std::string& { return all[i].first; };
  std::sort(object->by_name.begin(), object->by_name.end(),
            [&](std::uint32_t a, std::uint32_t b) { return name(a) < name(b); });
  const auto twice =
      std::adjacent_find(object->by_name.begin(), object->by_name.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return name(a) == name(b); });
  if (twice != object->by_name.end()) {
    *duplicate = name(*twice);
    return std::nullopt;
  }
  Json result;
  result.value_ = std::move(object);
  return result;
}

Json::Kind Json::kind() const noexcept {
  constexpr Kind kKinds[] = {Kind::kNull, Kind::kBool,   Kind::kInteger, Kind::kInteger,
                             Kind::kReal, Kind::kString, Kind::kArray,   Kind::kObject};
  return kKinds[value_.index()];
}

std::optional<bool> Json::boolean() const noexcept {
  const bool* value = std::get_if<bool>(&value_);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::int64_t> Json::integer() const noexcept {
  const auto* value = std::get_if<std::int64_t>(&value_);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::uint64_t> Json::unsigned_integer() const noexcept {
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return *value;
  const auto value = integer();
  return value && *value >= 0 ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

std::optional<double> Json::number() const noexcept {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  const auto value = integer();
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

const std::string* Json::string() const noexcept { return std::get_if<std::string>(&value_); }

const Json::Items* Json::items() const noexcept { return std::get_if<Items>(&value_); }

const Json::Members* Json::members() const noexcept {
  const auto* object = std::get_if<std::shared_ptr<const Object>>(&value_);
  return object == nullptr ? nullptr : &(*object)->members;
}

const Json* Json::find(std::string_view name) const noexcept {
  const auto* held = std::get_if<std::shared_ptr<const Object>>(&value_);
  if (held == nullptr) return nullptr;
  const Object& object = **held;
  const auto found = std::lower_bound(
      object.by_name.begin(), object.by_name.end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return object.members[i].first < wanted; });
  if (found == object.by_name.end() || object.members[*found].first != name) return nullptr;
  return &object.members[*found].second;
}

const char* to_string(Json::Kind kind) noexcept {
  switch (kind) {
    case Json::Kind::kNull: return "null";
    case Json::Kind::kBool: return "a boolean";
    case Json::Kind::kInteger: return "an integer";
    case Json::Kind::kReal: return "a number";
    case Json::Kind::kString: return "a string";
    case Json::Kind::kArray: return "an array";
    case Json::Kind::kObject: break;
  }
  return "an object";
}

Json parse_json(std::string_view text, const std::string& what, const JsonLimits& limits) {
  return Parser(text, what, limits).document();
}

}  // namespace gpk::inline base
