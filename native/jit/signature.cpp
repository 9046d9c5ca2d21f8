#include "jit/signature.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/text.h"
#include "jit/c_type.h"
#include "jit/declaration.h"
#include "jit/token.h"

namespace gpk::jit {
namespace {

constexpr int kMaxAliasDepth = 8;

using Substitution = std::map<std::string, Tokens>;

Tokens substitute(const Tokens& tokens, const Substitution& names) {
  Tokens out;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto it = names.find(tokens[i].text);
    const bool member = i > 0 && tokens[i - 1].is("::");
    if (it == names.end() || member || tokens[i].kind != TokenKind::kIdentifier) {
      out.push_back(tokens[i]);
    } else {
      out.insert(out.end(), it->second.begin(), it->second.end());
    }
  }
  return out;
}

bool is_qualifier(const Token& t) {
  static constexpr std::array<std::string_view, 13> kWords{
      "const", "volatile", "__restrict__", "__restrict", "restrict", "__grid_constant__", "struct",
      "class", "enum",     "union",        "typename",   "register", "__const__"};
  return std::find(kWords.begin(), kWords.end(), t.text) != kWords.end();
}

// One parameter declaration, read from left to right: base type, pointers, name, array bounds.
class ParamReader {
 public:
  ParamReader(Tokens tokens, const Substitution& aliases)
      : tokens_(std::move(tokens)), aliases_(aliases) {}

  Param read() {
    drop_default();
    scan(tokens_, 0);
    Param out;
    out.name = name_;
    out.type = spell(type_tokens());
    fill(out);
    return out;
  }

 private:
  void drop_default() {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].is("<") || tokens_[i].is("(")) i = closing(tokens_, i);
      if (i < tokens_.size() && tokens_[i].is("=")) {
        tokens_.resize(i);
        return;
      }
    }
  }

  void scan(const Tokens& tokens, int alias_depth) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const Token& t = tokens[i];
      if (t.is("[") && i + 1 < tokens.size() && tokens[i + 1].is("[")) {
        i = closing(tokens, i);  // an attribute
      } else if (t.is("[")) {
        if (!array_ && !parenthesized_) add_pointer();
        array_ = true;
        i = closing(tokens, i);
      } else if (t.is("(")) {
        i = scan_parenthesis(tokens, i);
      } else if (t.is("*")) {
        add_pointer();
      } else if (t.is("&")) {
        reference_ = true;
      } else if (t.is("...")) {
        pack_ = true;
      } else if (t.is("const") || t.is("__const__")) {
        const_ = true;
      } else if (t.is("__align__") || t.is("alignas") || t.is("__attribute__")) {
        if (i + 1 < tokens.size() && tokens[i + 1].is("(")) i = closing(tokens, i + 1);
      } else if (!is_qualifier(t)) {
        i = scan_word(tokens, i, alias_depth);
      }
    }
  }

  // float (*x), float (*x)[4], void (*f)(int): the name is inside the first pair; a second pair
  // makes it a pointer to a function.
  std::size_t scan_parenthesis(const Tokens& tokens, std::size_t open) {
    const std::size_t close = closing(tokens, open);
    if (parenthesized_ || base_.empty()) {
      function_ = true;
      return close;
    }
    parenthesized_ = true;
    for (std::size_t i = open + 1; i < close; ++i) {
      if (tokens[i].is("*")) add_pointer();
      if (tokens[i].is("const")) const_ = true;
      if (tokens[i].kind == TokenKind::kIdentifier && !is_qualifier(tokens[i])) {
        name_ = tokens[i].text;
      }
    }
    return close;
  }

  std::size_t scan_word(const Tokens& tokens, std::size_t i, int alias_depth) {
    const Token& t = tokens[i];
    const bool keyword = is_type_keyword(t.text);
    if (keyword && (base_.empty() || is_type_keyword(base_.front().text))) {
      base_.push_back(t);
      return i;
    }
    if (!base_.empty()) {
      if (t.kind == TokenKind::kIdentifier && alias_depth == 0) {
        name_ = t.text;
        name_at_ = i;
      }
      return i;
    }
    const std::size_t end = end_of_name(tokens, i);
    const auto alias = end == i ? aliases_.find(t.text) : aliases_.end();
    if (alias != aliases_.end() && alias_depth < kMaxAliasDepth) {
      scan(alias->second, alias_depth + 1);
      return end;
    }
    for (std::size_t k = i; k <= end; ++k) base_.push_back(tokens[k]);
    return end;
  }

  // Last token of a name such as ::a::B<int, 3>::type.
  static std::size_t end_of_name(const Tokens& tokens, std::size_t i) {
    while (true) {
      if (tokens[i].is("::") && i + 1 < tokens.size()) {
        ++i;
        continue;
      }
      if (i + 1 < tokens.size() && tokens[i + 1].is("<")) {
        i = std::min(closing(tokens, i + 1), tokens.size() - 1);
      }
      if (i + 1 >= tokens.size() || !tokens[i + 1].is("::")) return i;
      ++i;
    }
  }

  void add_pointer() {
    ++num_pointers_;
    points_to_const_ = const_;
    const_ = false;
  }

  Tokens type_tokens() const {
    Tokens out;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const bool is_name =
          i == name_at_ || (parenthesized_ && !name_.empty() && i > 0 && tokens_[i].is(name_));
      if (!is_name || name_.empty()) out.push_back(tokens_[i]);
    }
    return out;
  }

  void fill(Param& out) const {
    const CType base = classify_type(base_);
    if (function_) {
      out.bytes = 8;
    } else if (num_pointers_ > 0 && !reference_) {
      out.kind = ParamKind::kPointer;
      out.bytes = 8;
      out.is_const = points_to_const_;
      if (num_pointers_ == 1) out.dtype = base.dtype;
    } else if (!reference_ && !pack_) {
      out.kind = base.kind;
      out.bytes = base.bytes;
      out.dtype = base.dtype;
    }
  }

  Tokens tokens_;
  const Substitution& aliases_;
  Tokens base_;
  std::string name_;
  std::size_t name_at_ = static_cast<std::size_t>(-1);
  int num_pointers_ = 0;
  bool points_to_const_ = false;
  bool const_ = false;
  bool reference_ = false;
  bool array_ = false;
  bool parenthesized_ = false;
  bool function_ = false;
  bool pack_ = false;
};

struct Query {
  std::string name;  // "ns::scale"
  std::vector<Tokens> arguments;
  std::string specialization;
};

std::optional<Query> read_query(std::string_view function) {
  Tokens tokens = tokenize(function);
  if (!tokens.empty() && tokens.front().is("&")) tokens.erase(tokens.begin());
  if (!tokens.empty() && tokens.front().is("::")) tokens.erase(tokens.begin());
  Query out;
  std::size_t i = 0;
  for (; i < tokens.size() && !tokens[i].is("<"); ++i) out.name += tokens[i].text;
  if (out.name.empty()) return std::nullopt;
  if (i == tokens.size()) return out;
  if (closing(tokens, i) != tokens.size() - 1) return std::nullopt;
  const Tokens inside(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1, tokens.end() - 1);
  out.arguments = split_list(inside);
  out.specialization = spell(inside);
  return out;
}

// Best match: the exact specialisation, then the exact name, then the name in some namespace. Ties
// go to the first in the source; a specialisation that was not requested comes last.
const KernelDeclaration* choose(const Declarations& declarations, const Query& query) {
  const KernelDeclaration* best = nullptr;
  int best_rank = 0;
  for (const KernelDeclaration& kernel : declarations.kernels) {
    const bool exact = kernel.qualified_name == query.name;
    if (!exact && !kernel.qualified_name.ends_with("::" + query.name)) continue;
    int rank = exact ? 2 : 1;
    if (!kernel.specialization.empty()) {
      if (spell(kernel.specialization) == query.specialization) rank += 4;
    } else {
      rank += 2;
    }
    if (rank > best_rank) {
      best = &kernel;
      best_rank = rank;
    }
  }
  return best;
}

Substitution bind_arguments(const KernelDeclaration& kernel, const Query& query) {
  Substitution out;
  for (std::size_t i = 0; i < kernel.template_params.size(); ++i) {
    const TemplateParam& param = kernel.template_params[i];
    Tokens value;
    if (i < query.arguments.size()) {
      value = query.arguments[i];
    } else if (!query.arguments.empty()) {
      value = substitute(param.fallback, out);
    }
    if (!param.name.empty() && !value.empty()) out.emplace(param.name, std::move(value));
  }
  return out;
}

}  // namespace

std::optional<Signature> parse_signature(std::string_view source, std::string_view function) {
  const std::optional<Query> query = read_query(function);
  if (!query) return std::nullopt;
  const Declarations declarations = find_declarations(tokenize(source));
  const KernelDeclaration* kernel = choose(declarations, *query);
  if (kernel == nullptr) return std::nullopt;
  Signature out;
  out.function = kernel->qualified_name;
  for (const TemplateParam& param : kernel->template_params) {
    out.template_params.push_back(param.name);
  }
  const Substitution arguments = bind_arguments(*kernel, *query);
  // A template parameter shadows an alias of the same name, even when its argument is unknown.
  Substitution aliases = declarations.aliases;
  for (const TemplateParam& param : kernel->template_params) aliases.erase(param.name);
  for (const Tokens& param : kernel->params) {
    out.params.push_back(ParamReader(substitute(param, arguments), aliases).read());
  }
  return out;
}

std::vector<std::string> list_kernels(std::string_view source) {
  std::vector<std::string> out;
  for (const KernelDeclaration& kernel : find_declarations(tokenize(source)).kernels) {
    if (std::find(out.begin(), out.end(), kernel.qualified_name) == out.end()) {
      out.push_back(kernel.qualified_name);
    }
  }
  return out;
}

}  // namespace gpk::jit
