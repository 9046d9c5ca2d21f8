// Where the __global__ functions of a source are, before their types are understood.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jit/token.h"

namespace gpk::jit {

struct TemplateParam {
  std::string name;  // empty when the source leaves it out
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
  // using X = T; typedef T X; names that mean different things in different places are left out.
  std::map<std::string, Tokens> aliases;
};

Declarations find_declarations(const Tokens& tokens);

// Index of the token that closes the bracket at `open`: ( [ { or <. tokens.size() when unclosed.
// Angle brackets inside parentheses are operators, not brackets.
std::size_t closing(const Tokens& tokens, std::size_t open);

// Splits at the commas that are inside no bracket; {} for no tokens at all.
std::vector<Tokens> split_list(const Tokens& tokens);

}  // namespace gpk::jit
