#pragma once

#include <string_view>

#include "sim/ast.h"

namespace gpk::sim {

// The grammar of PTX, without the meaning of instructions. Throws PtxError. The result views
// `text`.
ast::Module parse_ptx(std::string_view text);

}  // namespace gpk::sim
