// A small JSON reader, for tests of what is written as JSON.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpk::runtime {

struct JsonValue {
  enum class Kind { kNull, kBool, kInteger, kReal, kString, kArray, kObject };
  Kind kind = Kind::kNull;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0.0;
  std::string text;
  std::vector<JsonValue> items;
  std::map<std::string, JsonValue, std::less<>> members;

  // A member of an object; nullptr when there is none or this is no object.
  [[nodiscard]] const JsonValue* find(std::string_view name) const;
};

// Nothing when `text` is not one JSON value (or is nested more than 64 deep). Never throws for bad
// text.
[[nodiscard]] std::optional<JsonValue> parse_json(std::string_view text);

namespace json_detail {

constexpr int kMaxDepth = 64;

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Every method returns false at the first thing that is not JSON.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  bool document(JsonValue& out) {
    if (!value(out, 0)) return false;
    skip_space();
    return rest_.empty();
  }

 private:
  void skip_space() {
    while (!rest_.empty() &&
           (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t' || rest_[0] == '\r'))
      rest_.remove_prefix(1);
  }

  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  bool value(JsonValue& out, int depth) {
    skip_space();
    if (rest_.empty() || depth > kMaxDepth) return false;
    using Kind = JsonValue::Kind;
    switch (rest_[0]) {
      case '{': return object(out, depth);
      case '[': return array(out, depth);
      case '"': out.kind = Kind::kString; return string(out.text);
      case 'n': return take("null");
      case 't':
        out.kind = Kind::kBool;
        out.boolean = true;
        return take("true");
      case 'f': out.kind = Kind::kBool; return take("false");
      default: return number(out);
    }
  }

  bool object(JsonValue& out, int depth) {
    out.kind = JsonValue::Kind::kObject;
    take("{");
    skip_space();
    if (take("}")) return true;
    while (true) {
      std::string name;
      skip_space();
      if (!string(name)) return false;
      skip_space();
      if (!take(":") || !value(out.members[name], depth + 1)) return false;
      skip_space();
      if (take("}")) return true;
      if (!take(",")) return false;
    }
  }

  bool array(JsonValue& out, int depth) {
    out.kind = JsonValue::Kind::kArray;
    take("[");
    skip_space();
    if (take("]")) return true;
    while (true) {
      if (!value(out.items.emplace_back(), depth + 1)) return false;
      skip_space();
      if (take("]")) return true;
      if (!take(",")) return false;
    }
  }

  bool string(std::string& out) {
    if (!take("\"")) return false;
    while (!rest_.empty() && rest_[0] != '"') {
      const char c = rest_[0];
      rest_.remove_prefix(1);
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\')
        out += c;
      else if (!escape(out))
        return false;
    }
    return take("\"");
  }

  bool escape(std::string& out) {
    if (rest_.empty()) return false;
    const char c = rest_[0];
    rest_.remove_prefix(1);
    constexpr std::string_view kPlain = "\"\\/";
    constexpr std::string_view kNames = "bfnrt";
    constexpr std::string_view kCodes = "\b\f\n\r\t";
    if (kPlain.find(c) != std::string_view::npos) {
      out += c;
    } else if (const auto at = kNames.find(c); at != std::string_view::npos) {
      out += kCodes[at];
    } else {
      return c == 'u' && unicode(out);
    }
    return true;
  }

  bool hex4(unsigned& code) {
    const std::string digits(rest_.substr(0, 4));
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos)
      return false;
    code = static_cast<unsigned>(std::stoul(digits, nullptr, 16));
    rest_.remove_prefix(4);
    return true;
  }

  bool unicode(std::string& out) {
    unsigned code = 0;
    if (!hex4(code)) return false;
    if (code >= 0xD800 && code < 0xDC00) {
      unsigned low = 0;
      if (!take("\\u") || !hex4(low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      return false;
    }
    const auto byte = [&](unsigned bits) { out += static_cast<char>(bits); };
    if (code < 0x80) {
      byte(code);
    } else if (code < 0x800) {
      byte(0xC0 | (code >> 6));
      byte(0x80 | (code & 63));
    } else {
      if (code < 0x10000) {
        byte(0xE0 | (code >> 12));
      } else {
        byte(0xF0 | (code >> 18));
        byte(0x80 | ((code >> 12) & 63));
      }
      byte(0x80 | ((code >> 6) & 63));
      byte(0x80 | (code & 63));
    }
    return true;
  }

  bool number(JsonValue& out) {
    std::size_t length = 0;
    const auto digits = [&] {
      const std::size_t before = length;
      while (length < rest_.size() && is_digit(rest_[length])) ++length;
      return length > before;
    };
    const auto skip = [&](std::string_view any_of) {
      const bool found = length < rest_.size() && any_of.find(rest_[length]) != any_of.npos;
      if (found) ++length;
      return found;
    };
    skip("-");
    const bool leading_zero = length < rest_.size() && rest_[length] == '0';
    const std::size_t first_digit = length;
    if (!digits() || (leading_zero && length > first_digit + 1)) return false;
    bool whole = true;
    if (skip(".")) {
      whole = false;
      if (!digits()) return false;
    }
    if (skip("eE")) {
      whole = false;
      skip("+-");
      if (!digits()) return false;
    }
    const std::string text(rest_.substr(0, length));
    const char* const end = text.data() + text.size();
    rest_.remove_prefix(length);
    if (whole && std::from_chars(text.data(), end, out.integer).ec == std::errc()) {
      out.kind = JsonValue::Kind::kInteger;
      return true;
    }
    out.kind = JsonValue::Kind::kReal;
    return std::from_chars(text.data(), end, out.real).ec == std::errc();
  }

  std::string_view rest_;
};

}  // namespace json_detail

inline const JsonValue* JsonValue::find(std::string_view name) const {
  const auto found = members.find(name);
  return found == members.end() ? nullptr : &found->second;
}

inline std::optional<JsonValue> parse_json(std::string_view text) {
  JsonValue value;
  if (!json_detail::Parser(text).document(value)) return std::nullopt;
  return value;
}

}  // namespace gpk::runtime
