#include "sim/lexer.h"

#include <string>

#include "sim/module.h"

namespace gpk::sim {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    tokens_.reserve(text_.size() / 4);
    for (;;) {
      skip_space();
      if (at_ >= text_.size()) break;
      next();
    }
    tokens_.push_back({Token::Kind::kEnd, line_, {}});
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\0') {
        ++at_;
      } else if (c == '/' && peek(1) == '/') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '/' && peek(1) == '*') {
        at_ += 2;
        while (at_ < text_.size() && !(text_[at_] == '*' && peek(1) == '/'))
          if (text_[at_++] == '\n') ++line_;
        at_ += 2;
      } else {
        return;
      }
    }
  }

  void push(Token::Kind kind, std::size_t begin, std::size_t end) {
    tokens_.push_back({kind, line_, text_.substr(begin, end - begin)});
  }

  void next() {
    const std::size_t begin = at_;
    const char c = text_[at_];
    if (is_letter(c) || (c == '.' && is_letter(peek(1)))) {
      ++at_;
      for (;;) {
        const char d = peek();
        if (is_letter(d) || is_digit(d) || (d == '.' && (is_letter(peek(1)) || is_digit(peek(1)))))
          ++at_;
        else if (d == ':' && peek(1) == ':')
          at_ += 2;
        else
          break;
      }
      push(Token::Kind::kWord, begin, at_);
    } else if (is_digit(c)) {
      while (is_letter(peek()) || is_digit(peek()) || peek() == '.' ||
             ((peek() == '+' || peek() == '-') && decimal_exponent(begin)))
        ++at_;
      push(Token::Kind::kNumber, begin, at_);
    } else if (c == '"') {
      ++at_;
      while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '\n') throw PtxError(line_, "unterminated string");
        at_ += text_[at_] == '\\' ? 2 : 1;
      }
      if (at_ >= text_.size()) throw PtxError(line_, "unterminated string");
      push(Token::Kind::kString, begin + 1, at_);
      ++at_;
    } else if (c > ' ' && c < 127) {
      ++at_;
      push(Token::Kind::kPunct, begin, at_);
    } else {
      throw PtxError(line_, "unexpected byte " + std::to_string(static_cast<unsigned char>(c)));
    }
  }

  // "1e+3": the sign belongs to the number, unlike in "0x1e+3".
  bool decimal_exponent(std::size_t begin) const {
    const char last = text_[at_ - 1];
    if (last != 'e' && last != 'E') return false;
    if (at_ - begin < 2 || text_[begin] != '0') return true;
    const char second = text_[begin + 1];
    return is_digit(second) || second == '.';
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view text) { return Lexer(text).run(); }

}  // namespace gpk::sim
