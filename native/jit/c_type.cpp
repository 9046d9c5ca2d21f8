#include "jit/c_type.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

namespace gpk::jit {
namespace {

constexpr std::array<std::string_view, 10> kKeywords{
    "unsigned", "signed", "char", "short", "int", "long", "float", "double", "bool", "void"};

#ifdef _WIN32
constexpr std::uint32_t kLongBytes = 4;
#else
constexpr std::uint32_t kLongBytes = 8;
#endif

CType integer(std::uint32_t bytes, bool is_unsigned) {
  static constexpr DType kSigned[] = {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};
  static constexpr DType kUnsigned[] = {DType::kUInt8, DType::kUInt16, DType::kUInt32,
                                        DType::kUInt64};
  const std::size_t index = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  if (is_unsigned) return {ParamKind::kUnsigned, bytes, kUnsigned[index]};
  return {ParamKind::kSigned, bytes, kSigned[index]};
}

CType from_keywords(const Tokens& base) {
  const auto count = [&](std::string_view word) {
    return std::count_if(base.begin(), base.end(), [&](const Token& t) { return t.is(word); });
  };
  const bool is_unsigned = count("unsigned") > 0;
  if (count("void") > 0) return {};
  if (count("bool") > 0) return {ParamKind::kBool, 1, DType::kBool};
  if (count("float") > 0) return {ParamKind::kFloat, 4, DType::kFloat32};
  if (count("double") > 0) {
    if (count("long") > 0) return {};
    return {ParamKind::kFloat, 8, DType::kFloat64};
  }
  if (count("char") > 0) return integer(1, is_unsigned);
  if (count("short") > 0) return integer(2, is_unsigned);
  if (count("long") > 1) return integer(8, is_unsigned);
  if (count("long") == 1) return integer(kLongBytes, is_unsigned);
  return integer(4, is_unsigned);
}

struct NamedType {
  std::string_view name;
  CType type;
};

constexpr CType kI8{ParamKind::kSigned, 1, DType::kInt8};
constexpr CType kI16{ParamKind::kSigned, 2, DType::kInt16};
constexpr CType kI32{ParamKind::kSigned, 4, DType::kInt32};
constexpr CType kI64{ParamKind::kSigned, 8, DType::kInt64};
constexpr CType kU8{ParamKind::kUnsigned, 1, DType::kUInt8};
constexpr CType kU16{ParamKind::kUnsigned, 2, DType::kUInt16};
constexpr CType kU32{ParamKind::kUnsigned, 4, DType::kUInt32};
constexpr CType kU64{ParamKind::kUnsigned, 8, DType::kUInt64};
constexpr CType kF16{ParamKind::kFloat, 2, DType::kFloat16};
constexpr CType kBF16{ParamKind::kFloat, 2, DType::kBFloat16};

constexpr CType opaque(std::uint32_t bytes, std::optional<DType> dtype = std::nullopt) {
  return {ParamKind::kOpaque, bytes, dtype};
}

constexpr NamedType kNamed[] = {
    {"int8_t", kI8},
    {"int16_t", kI16},
    {"int32_t", kI32},
    {"int64_t", kI64},
    {"uint8_t", kU8},
    {"uint16_t", kU16},
    {"uint32_t", kU32},
    {"uint64_t", kU64},
    {"size_t", kU64},
    {"uintptr_t", kU64},
    {"ptrdiff_t", kI64},
    {"intptr_t", kI64},
    {"ssize_t", kI64},
    {"uchar", kU8},
    {"ushort", kU16},
    {"uint", kU32},
    {"char8_t", kU8},
    {"char16_t", kU16},
    {"char32_t", kU32},
    {"CUdeviceptr", kU64},
    {"cudaTextureObject_t", kU64},
    {"cudaSurfaceObject_t", kU64},
    {"half", kF16},
    {"__half", kF16},
    {"float16", kF16},
    {"nv_bfloat16", kBF16},
    {"__nv_bfloat16", kBF16},
    {"bfloat16", kBF16},
    {"__nv_fp8_e4m3", opaque(1, DType::kFloat8E4M3FN)},
    {"__nv_fp8_e5m2", opaque(1, DType::kFloat8E5M2)},
    {"complex64", opaque(8, DType::kComplex64)},
    {"complex128", opaque(16, DType::kComplex128)},
    {"half2", opaque(4)},
    {"__half2", opaque(4)},
    {"nv_bfloat162", opaque(4)},
    {"__nv_bfloat162", opaque(4)},
    {"cuComplex", opaque(8)},
    {"cuFloatComplex", opaque(8)},
    {"cuDoubleComplex", opaque(16)},
    {"dim3", opaque(12)},
    {"CUtensorMap", opaque(128)},
};

struct VectorBase {
  std::string_view name;
  std::uint32_t bytes;
};

constexpr VectorBase kVectors[] = {
    {"char", 1},  {"uchar", 1},    {"short", 2},         {"ushort", 2},
    {"int", 4},   {"uint", 4},     {"long", kLongBytes}, {"ulong", kLongBytes},
    {"float", 4}, {"longlong", 8}, {"ulonglong", 8},     {"double", 8},
};

// float4, uchar3, and CUDA 13's double4_16a.
std::uint32_t vector_bytes(std::string_view name) {
  for (const std::string_view suffix : {"_16a", "_32a"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  if (name.empty() || name.back() < '1' || name.back() > '4') return 0;
  const auto lanes = static_cast<std::uint32_t>(name.back() - '0');
  name.remove_suffix(1);
  for (const VectorBase& base : kVectors) {
    if (base.name == name) return base.bytes * lanes;
  }
  return 0;
}

// The last component of a name whose qualifier is one of the namespaces these types live in.
std::string_view unqualified(const std::string& spelled) {
  std::string_view name = spelled;
  if (name.starts_with("::")) name.remove_prefix(2);
  for (const std::string_view scope : {"std::", "cuda::std::", "gpk::"}) {
    if (name.starts_with(scope)) return name.substr(scope.size());
  }
  return name;
}

}  // namespace

bool is_type_keyword(std::string_view word) {
  return std::find(kKeywords.begin(), kKeywords.end(), word) != kKeywords.end();
}

CType classify_type(const Tokens& base) {
  if (base.empty()) return {};
  if (is_type_keyword(base.front().text)) return from_keywords(base);
  const std::string spelled = spell(base);
  const std::string_view name = unqualified(spelled);
  const auto row = std::find_if(std::begin(kNamed), std::end(kNamed),
                                [&](const NamedType& t) { return t.name == name; });
  if (row != std::end(kNamed)) return row->type;
  return opaque(vector_bytes(name));
}

}  // namespace gpk::jit
