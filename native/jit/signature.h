// Reads the parameter list of a __global__ function out of CUDA C source, so that Python arguments
// can be matched by name and converted to the exact types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace gpk::jit {

enum class ParamKind : std::uint8_t {
  kPointer,  // T*; dtype is set when T is a known element type, else any array is accepted
  kBool,
  kSigned,    // char (signed), short, int, long, long long, int8_t ... of `bytes` bytes
  kUnsigned,  // unsigned ..., size_t, uint8_t ...
  kFloat,     // float, double, and __half / __nv_bfloat16 (see dtype)
  kOpaque,    // struct, enum or anything else: passed as raw bytes
};

struct Param {
  std::string name;  // empty when the source omits it
  std::string type;  // as written, white space folded: "const float* __restrict__"
  ParamKind kind = ParamKind::kOpaque;
  std::uint32_t bytes = 0;     // size by value; 8 for pointers; 0: unknown (kOpaque)
  std::optional<DType> dtype;  // element type of a pointer; type of a scalar
  bool is_const = false;       // pointer to const
};

struct Signature {
  std::string function;  // with its namespaces, without template arguments: "ns::scale"
  std::vector<Param> params;
  std::vector<std::string> template_params;  // names, empty for a plain function
};

// Finds `__global__ ... function(...)`. `function` may be a template instantiation ("scale<float>")
// or qualified ("ns::scale"): template parameters are substituted. Type aliases of the source
// (using, typedef) are resolved. nullopt when the source (comments and strings skipped, no
// preprocessing) has no such function.
std::optional<Signature> parse_signature(std::string_view source, std::string_view function);

// Names (with namespaces) of all __global__ functions in the source, each once, for "did you mean"
// messages.
std::vector<std::string> list_kernels(std::string_view source);

}  // namespace gpk::jit
