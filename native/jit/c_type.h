// What the spelling of a C type tells: kind, size and element type.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/dtype.h"
#include "jit/signature.h"
#include "jit/token.h"

namespace gpk::jit {

struct CType {
  ParamKind kind = ParamKind::kOpaque;
  std::uint32_t bytes = 0;  // 0: unknown
  std::optional<DType> dtype;
};

// Keywords that arithmetic types are composed of: unsigned, long, int, ...
bool is_type_keyword(std::string_view word);

// `base` is a type without qualifiers, pointers and references: {unsigned, long, long} or
// {std, ::, uint32_t}. Unknown names are opaque of unknown size.
CType classify_type(const Tokens& base);

}  // namespace gpk::jit
