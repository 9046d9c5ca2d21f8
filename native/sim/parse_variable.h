// Declarations of variables, after the space:
// [.attribute] [.align n] [.vN] .type [.ptr ...] name [dims] [= init], ...
#pragma once

#include "sim/ast.h"
#include "sim/token_stream.h"

namespace gpk::sim {

struct VariableShape {
  std::size_t align = 0;
  unsigned vector = 1;
  Type type = Type::kNone;
};
VariableShape parse_shape(TokenStream& in);

ast::Variable parse_variable(TokenStream& in, ast::Variable::Space space,
                             const VariableShape& shape);

}  // namespace gpk::sim
