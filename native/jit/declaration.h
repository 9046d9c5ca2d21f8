// Finds the __global__ functions of a source, before their types are parsed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jit/token.h"

namespace gpk::jit {

struct TemplateParam {
  std::string name;  // empty when the source omits it
  Tokens fallback;   // default argument
};

struct KernelDeclaration {
  std::string qualified_name;  // "ns::scale"
  Tokens specialization;       // template arguments after the name (explicit specialisation)
  std::vector<TemplateParam> template_params;
  std::vector<Tokens> params;  // one per parameter, as written
};

struct Declarations {
  std::vector<KernelDeclaration> kernels;
  // using X = T; typedef T X; ambiguous names are left out.
  std::map<std::string, Tokens> aliases;
};

Declarations find_declarations(const Tokens& tokens);

// Index of the token that closes the bracket at `open`: ( [ { or <. tokens.size() when unclosed.
// Angle brackets inside parentheses are operators, not brackets.
std::size_t closing(const Tokens& tokens, std::size_t open);

// Splits at top-level commas; {} for no tokens at all.
std::vector<Tokens> split_list(const Tokens& tokens);

}  // namespace gpk::jit
