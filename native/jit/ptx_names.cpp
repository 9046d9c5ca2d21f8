#include "jit/ptx_names.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"

// A coded name is '%', a code and the class ("r" of %r12), or '$' and a code for a label. No PTX
// has the bytes of codes in these places.
namespace gpk::jit {
namespace {

constexpr std::string_view kLabel = "$L__BB";
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz";

// Names have the scope of a function; each of these begins one.
constexpr std::array<std::string_view, 5> kFunctions{".visible ", ".weak ", ".extern ", ".entry ",
                                                     ".func "};

// How many names of the class have appeared since this one: 0 is the latest. A code is a byte for
// small ages, else kFar, the age in decimal and a ':'.
constexpr char kNew = '\x01';
constexpr char kFar = '\x02';
constexpr std::size_t kControlAges = 28;  // bytes 3 to 30
constexpr std::size_t kByteAges = kControlAges + 128;

bool is_code(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte > 0 && byte < 31) || byte >= 128;
}

void put_age(std::string& out, std::size_t age) {
  if (age < kControlAges) {
    out += static_cast<char>(age + 3);
  } else if (age < kByteAges) {
    out += static_cast<char>(age - kControlAges + 128);
  } else {
    out += kFar;
    out += std::to_string(age);
    out += ':';
  }
}

// The prefix of `text` made of `set`.
std::string_view run_of(std::string_view text, std::string_view set) {
  return text.substr(0, std::min(text.find_first_not_of(set), text.size()));
}

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool begins_function(std::string_view line) {
  for (const std::string_view prefix : kFunctions)
    if (line.starts_with(prefix)) return true;
  return false;
}

// The text from `at` on up to the next byte that may be of a name or begin a function.
std::size_t next_stop(std::string_view text, std::size_t at) {
  return std::min(text.find_first_of("%$.", at), text.size());
}

class Coder {
 public:
  explicit Coder(std::string_view ptx) : ptx_(ptx) {}

  std::string run() {
    for (std::size_t at = 0; at < ptx_.size();) {
      const std::size_t stop = next_stop(ptx_, at);
      out_.append(ptx_, at, stop - at);
      if (stop == ptx_.size()) break;
      at = stop + name_at(stop);
    }
    return std::move(out_);
  }

 private:
  // Writes what begins at `at`; how long it was.
  std::size_t name_at(std::size_t at) {
    const std::string_view rest = ptx_.substr(at);
    if (rest[0] != '.' && rest.size() > 1 && is_code(rest[1])) {
      throw Error("jit: PTX to be coded contains bytes of codes");
    }
    if (rest[0] == '%') {
      const std::string_view letters = run_of(rest.substr(1), kLetters);
      const std::string_view digits = run_of(rest.substr(1 + letters.size()), kDigits);
      const std::size_t size = 1 + letters.size() + digits.size();
      const bool whole = size == rest.size() || !is_word(rest[size]);
      if (rest.substr(size).starts_with('<')) classes_.emplace(letters);
      if (!digits.empty() && whole && classes_.contains(std::string(letters))) {
        put('%', letters, digits);
        return size;
      }
    } else if (rest.starts_with(kLabel)) {
      // "$L__BB3_14": the third function of the module, the fourteenth label.
      const std::string_view name = run_of(rest.substr(kLabel.size()), "0123456789_");
      put('$', "", name);
      return kLabel.size() + name.size();
    } else if (rest[0] == '.' && (at == 0 || ptx_[at - 1] == '\n') && begins_function(rest)) {
      names_.clear();
      classes_.clear();
    }
    out_ += rest[0];
    return 1;
  }

  void put(char kind, std::string_view name_class, std::string_view name) {
    auto& known = names_[std::string(name_class)];
    const auto [it, is_new] = known.emplace(name, known.size());
    out_ += kind;
    if (is_new) {
      out_ += kNew;
    } else {
      put_age(out_, known.size() - 1 - it->second);
    }
    out_ += name_class;
  }

  std::string_view ptx_;
  std::string out_;
  std::set<std::string> classes_;  // with a declaration in this function
  std::map<std::string, std::map<std::string, std::size_t>> names_;  // by class; "": labels
};

class Decoder {
 public:
  explicit Decoder(std::string_view coded) : coded_(coded) {}

  std::string run() {
    while (at_ < coded_.size()) {
      const std::size_t stop = next_stop(coded_, at_);
      out_.append(coded_, at_, stop - at_);
      at_ = stop;
      if (stop < coded_.size()) name();
    }
    return std::move(out_);
  }

 private:
  void name() {
    const char first = coded_[at_];
    const std::string_view rest = coded_.substr(at_);
    if (first == '.' && (at_ == 0 || coded_[at_ - 1] == '\n') && begins_function(rest)) {
      counts_.clear();
    }
    ++at_;
    if ((first != '%' && first != '$') || at_ == coded_.size() || !is_code(coded_[at_])) {
      out_ += first;
      return;
    }
    const char code = coded_[at_++];
    std::size_t age = 0;
    if (code == kFar) {
      age = far_age();
    } else if (code != kNew) {
      const auto byte = static_cast<unsigned char>(code);
      age = byte < 128 ? byte - std::size_t{3} : byte - std::size_t{128} + kControlAges;
    }
    const std::string_view letters =
        first == '%' ? run_of(coded_.substr(at_), kLetters) : std::string_view();
    at_ += letters.size();
    std::size_t& count = counts_[std::string(letters)];
    if (code == kNew) ++count;
    if (age >= count) throw Error("jit: coded PTX refers to a name that was never new");
    out_ += first == '%' ? std::string_view("%") : kLabel;
    out_ += first == '%' ? std::string(letters) : std::string("0_");
    out_ += std::to_string(count - 1 - age);
  }

  std::size_t far_age() {
    std::size_t age = 0;
    const std::string_view digits = run_of(coded_.substr(at_), kDigits);
    at_ += digits.size() + 1;
    if (digits.empty() || digits.size() > 9 || at_ > coded_.size() || coded_[at_ - 1] != ':') {
      throw Error("jit: coded PTX has a bad code");
    }
    for (const char c : digits) age = age * 10 + static_cast<std::size_t>(c - '0');
    return age;
  }

  std::string_view coded_;
  std::size_t at_ = 0;
  std::string out_;
  std::map<std::string, std::size_t> counts_;  // of the names of a class in this function
};

}  // namespace

std::string code_names(std::string_view ptx) { return Coder(ptx).run(); }

std::string restore_names(std::string_view coded) { return Decoder(coded).run(); }

}  // namespace gpk::jit
