#include "jit/declaration.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "jit/c_type.h"

namespace gpk::jit {
namespace {

Tokens slice(const Tokens& tokens, std::size_t begin, std::size_t end) {
  end = std::min(end, tokens.size());
  begin = std::min(begin, end);
  return Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                tokens.begin() + static_cast<std::ptrdiff_t>(end));
}

bool opens(const Token& t) { return t.is("(") || t.is("[") || t.is("{"); }

std::size_t find_top_level(const Tokens& tokens, std::string_view what) {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].is(what)) return i;
    if (opens(tokens[i]) || tokens[i].is("<")) i = closing(tokens, i);
  }
  return tokens.size();
}

TemplateParam read_template_param(const Tokens& tokens) {
  const std::size_t equals = find_top_level(tokens, "=");
  TemplateParam out;
  out.fallback = slice(tokens, equals + 1, tokens.size());
  if (equals == 0 || equals > tokens.size()) return out;
  const Token& last = tokens[equals - 1];
  const bool unnamed = last.kind != TokenKind::kIdentifier || is_type_keyword(last.text) ||
                       last.is("typename") || last.is("class") || equals == 1;
  if (!unnamed) out.name = last.text;
  return out;
}

// __launch_bounds__(256), __cluster_dims__(2, 1, 1), alignas(16), noexcept(true), ...
bool takes_arguments(const Token& t) {
  const bool dunder = t.text.size() > 4 && t.text.starts_with("__") && t.text.ends_with("__");
  return dunder || t.is("alignas") || t.is("decltype") || t.is("noexcept") || t.is("explicit") ||
         t.is("requires");
}

class Finder {
 public:
  explicit Finder(const Tokens& tokens) : tokens_(tokens) {}

  Declarations run() {
    for (at_ = 0; at_ < tokens_.size(); ++at_) step();
    for (const std::string& name : ambiguous_) out_.aliases.erase(name);
    return std::move(out_);
  }

 private:
  const Token& token(std::size_t i) const {
    static const auto* none = new Token;
    return i < tokens_.size() ? tokens_[i] : *none;
  }

  void step() {
    const Token& t = token(at_);
    if (t.is("namespace")) {
      read_namespace();
    } else if (t.is("template")) {
      read_template();
    } else if (t.is("__global__")) {
      read_kernel();
    } else if (t.is("using")) {
      read_using();
    } else if (t.is("typedef")) {
      read_typedef();
    } else if (t.is("{")) {
      scopes_.push_back("");
      template_params_.clear();
    } else if (t.is("}")) {
      if (!scopes_.empty()) scopes_.pop_back();
      template_params_.clear();
    } else if (t.is(";")) {
      template_params_.clear();
    }
  }

  // `namespace a::b {` pushes one scope for its one brace; `namespace x = y;` pushes none.
  void read_namespace() {
    std::string name;
    std::size_t i = at_ + 1;
    for (; i < tokens_.size() && !token(i).is("{") && !token(i).is(";"); ++i) {
      if (token(i).is("[")) {
        i = closing(tokens_, i);
      } else if (!token(i).is("inline")) {
        name += token(i).text;
      }
    }
    if (token(i).is("{")) scopes_.push_back(name);
    at_ = i;
  }

  void read_template() {
    template_params_.clear();
    if (!token(at_ + 1).is("<")) return;
    const std::size_t close = closing(tokens_, at_ + 1);
    for (const Tokens& param : split_list(slice(tokens_, at_ + 2, close))) {
      template_params_.push_back(read_template_param(param));
    }
    at_ = close;
  }

  void read_kernel() {
    for (std::size_t i = at_ + 1; i < tokens_.size(); ++i) {
      const Token& t = token(i);
      if (t.is("{") || t.is(";") || t.is("}")) return;
      if (t.is("[") || t.is("(")) {
        i = closing(tokens_, i);
        continue;
      }
      if (t.kind != TokenKind::kIdentifier) continue;
      if (takes_arguments(t)) {
        if (token(i + 1).is("(")) i = closing(tokens_, i + 1);
        continue;
      }
      std::size_t open = i + 1;
      if (token(open).is("<")) open = closing(tokens_, open) + 1;
      if (!token(open).is("(")) {
        i = open - 1;
        continue;
      }
      add_kernel(i, open);
      return;
    }
  }

  void add_kernel(std::size_t name_at, std::size_t open) {
    const std::size_t close = closing(tokens_, open);
    if (close == tokens_.size()) return;
    KernelDeclaration kernel;
    for (const std::string& scope : scopes_) {
      if (!scope.empty()) kernel.qualified_name += scope + "::";
    }
    kernel.qualified_name += token(name_at).text;
    if (open > name_at + 1) kernel.specialization = slice(tokens_, name_at + 2, open - 1);
    kernel.template_params = template_params_;
    kernel.params = split_list(slice(tokens_, open + 1, close));
    if (kernel.params.size() == 1 && kernel.params[0].size() == 1 &&
        kernel.params[0][0].is("void")) {
      kernel.params.clear();
    }
    out_.kernels.push_back(std::move(kernel));
    at_ = close;
  }

  std::size_t end_of_statement() const {
    std::size_t i = at_;
    while (i < tokens_.size() && !token(i).is(";")) {
      i = opens(token(i)) ? closing(tokens_, i) + 1 : i + 1;
    }
    return i;
  }

  void read_using() {
    if (!token(at_ + 2).is("=") || !template_params_.empty()) return;
    const std::size_t end = end_of_statement();
    add_alias(token(at_ + 1).text, slice(tokens_, at_ + 3, end));
    at_ = std::min(end, tokens_.size());
  }

  void read_typedef() {
    const std::size_t end = end_of_statement();
    const Tokens body = slice(tokens_, at_ + 1, end);
    const bool simple = body.size() >= 2 && body.back().kind == TokenKind::kIdentifier &&
                        std::none_of(body.begin(), body.end(), opens);
    if (!simple) return;
    add_alias(body.back().text, slice(body, 0, body.size() - 1));
    at_ = end;
    template_params_.clear();
  }

  void add_alias(const std::string& name, Tokens type) {
    if (type.empty()) return;
    const auto [it, fresh] = out_.aliases.emplace(name, type);
    if (!fresh && spell(it->second) != spell(type)) ambiguous_.insert(name);
  }

  const Tokens& tokens_;
  std::size_t at_ = 0;
  std::vector<std::string> scopes_;  // one per open brace; empty for an unnamed one
  std::vector<TemplateParam> template_params_;
  std::set<std::string> ambiguous_;
  Declarations out_;
};

}  // namespace

Declarations find_declarations(const Tokens& tokens) { return Finder(tokens).run(); }

std::size_t closing(const Tokens& tokens, std::size_t open) {
  if (open >= tokens.size()) return tokens.size();
  const std::string& first = tokens[open].text;
  const bool angle = first == "<";
  const std::string close = angle ? ">" : first == "(" ? ")" : first == "[" ? "]" : "}";
  int depth = 0;
  for (std::size_t i = open; i < tokens.size(); ++i) {
    if (tokens[i].is(first)) {
      ++depth;
    } else if (tokens[i].is(close)) {
      if (--depth == 0) return i;
    } else if (angle && opens(tokens[i])) {
      i = closing(tokens, i);
    }
  }
  return tokens.size();
}

std::vector<Tokens> split_list(const Tokens& tokens) {
  std::vector<Tokens> out;
  if (tokens.empty()) return out;
  out.emplace_back();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].is(",")) {
      out.emplace_back();
      continue;
    }
    std::size_t end = i;
    if (opens(tokens[i]) || tokens[i].is("<"))
      end = std::min(closing(tokens, i), tokens.size() - 1);
    for (; i < end; ++i) out.back().push_back(tokens[i]);
    out.back().push_back(tokens[i]);
  }
  return out;
}

}  // namespace gpk::jit
