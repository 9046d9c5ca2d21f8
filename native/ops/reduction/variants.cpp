#include "ops/reduction/variants.h"

#include "base/text.h"
#include "core/promote.h"
#include "plan/key_builder.h"

namespace gpk::ops::reduction {
namespace {

constexpr const char* kFunctors[] = {
#define GPK_FUNCTOR(name, exact) #name,
#include "ops/reduction/functors.def"
};

bool is_extreme(Functor functor) { return functor == Functor::kMax || functor == Functor::kMin; }
bool is_arg(Functor functor) { return functor == Functor::kArgMax || functor == Functor::kArgMin; }

// Dtypes that are the same to a functor: bool is a byte, 64-bit sums wrap alike, and what is zero
// does not depend on the sign or, of the 16-bit floats, on the exponent's width.
DType stored_as(Functor functor, DType in) {
  if (in == DType::kBool) return DType::kUInt8;
  if (functor == Functor::kSum && in == DType::kUInt64) return DType::kInt64;
  if (functor != Functor::kCount) return in;
  switch (in) {
    case DType::kInt8: return DType::kUInt8;
    case DType::kInt16: return DType::kUInt16;
    case DType::kInt32: return DType::kUInt32;
    case DType::kInt64: return DType::kUInt64;
    case DType::kBFloat16: return DType::kFloat16;
    default: return in;
  }
}

template <class... DTypes>
constexpr std::uint32_t mask_of(DTypes... dtypes) {
  return ((1u << static_cast<int>(dtypes)) | ...);
}

// What functors.def writes its dtypes with.
constexpr std::uint32_t kFloat32 = mask_of(DType::kFloat32);
constexpr std::uint32_t kBFloat16 = mask_of(DType::kBFloat16);
constexpr std::uint32_t kSmallFloats = kFloat32 | kBFloat16 | mask_of(DType::kFloat16);
constexpr std::uint32_t kFloats = kSmallFloats | mask_of(DType::kFloat64);
constexpr std::uint32_t kComplex64 = mask_of(DType::kComplex64);
constexpr std::uint32_t kBoolOrByte = mask_of(DType::kBool, DType::kUInt8);
constexpr std::uint32_t kBytes = kBoolOrByte | mask_of(DType::kInt8);
constexpr std::uint32_t kInt32 = mask_of(DType::kInt32);
constexpr std::uint32_t kUInt32 = mask_of(DType::kUInt32);
constexpr std::uint32_t kSigned64 = mask_of(DType::kInt64);
constexpr std::uint32_t kInt64 = kSigned64 | mask_of(DType::kUInt64);

constexpr std::uint32_t kExact[] = {
#define GPK_FUNCTOR(name, exact) exact,
#include "ops/reduction/functors.def"
};

ValueType float_value(DType in) {
  return in == DType::kFloat64 ? ValueType::kDouble : ValueType::kFloat;
}

// Of the variants that the general kernel can stand in for, those worth their place in the bundle.
bool is_common(DType in) {
  return in == DType::kFloat32 || in == DType::kBFloat16 || in == DType::kInt64 ||
         in == DType::kUInt8;
}

bool is_common(Functor functor) {
  return functor == Functor::kSum || functor == Functor::kMax || functor == Functor::kMin ||
         functor == Functor::kArgMax || functor == Functor::kVar;
}

}  // namespace

const char* value_name(ValueType value) {
  constexpr const char* kNames[] = {"",      "int",    "long long",      "unsigned long long",
                                    "float", "double", "gpk::complex64", "gpk::complex128"};
  return kNames[static_cast<int>(value)];
}

ResultClass class_of(DType dtype) {
  if (is_complex(dtype)) return ResultClass::kComplex;
  return is_float(dtype) ? ResultClass::kReal : ResultClass::kInteger;
}

ValueType general_value(Functor functor, DType in, ResultClass result) {
  if (functor == Functor::kCount) return ValueType::kNone;
  if (is_complex(in)) return ValueType::kComplex128;
  if (is_extreme(functor) || is_arg(functor)) {
    if (is_float(in)) return ValueType::kDouble;
    return in == DType::kUInt64 ? ValueType::kUnsignedLongLong : ValueType::kLongLong;
  }
  return result == ResultClass::kInteger ? ValueType::kLongLong : ValueType::kDouble;
}

std::optional<ValueType> exact_value(Functor functor, DType in) {
  if ((kExact[static_cast<int>(functor)] >> static_cast<int>(in) & 1u) == 0) return std::nullopt;
  if (functor == Functor::kCount) return ValueType::kNone;
  if (functor == Functor::kProd) return ValueType::kDouble;
  if (in == DType::kComplex64) return ValueType::kComplex64;
  if (is_float(in)) return float_value(in);
  // Extremes of 32 bits fit where sums of them do not.
  const int narrow = functor == Functor::kSum ? 16 : 32;
  return info(in).bits <= narrow ? ValueType::kInt : ValueType::kLongLong;
}

std::uint64_t pack(const Variant& variant) {
  return plan::KeyBuilder()
      .field("functor", variant.functor, 4)
      .field("value", variant.value, 3)
      .field("in", stored_as(variant.functor, variant.in), plan::kDTypeBits)
      .key();
}

jit::KernelSpec reduce_spec(const Variant& variant, const char* op) {
  std::string functor = cat("gpk::", kFunctors[static_cast<int>(variant.functor)]);
  if (variant.value != ValueType::kNone)
    functor = cat(functor, "<", value_name(variant.value), ">");
  jit::KernelSpec spec;
  spec.op = op;
  spec.kernel = static_cast<std::uint8_t>(variant.kernel);
  spec.variant = pack(variant);
  if (variant.kernel == ReduceKernel::kGeneral) {
    spec.file = "reduction/general.cuh";
    spec.expression = cat("gpk::reduce_general<", functor, ">");
    return spec;
  }
  constexpr const char* kNames[] = {"general", "rows", "columns", "even_rows"};
  constexpr const char* kFiles[] = {"reduction/general.cuh", "reduction/rows.cuh",
                                    "reduction/columns.cuh", "reduction/even_rows.cuh"};
  const char* name = kNames[static_cast<int>(variant.kernel)];
  spec.file = kFiles[static_cast<int>(variant.kernel)];
  spec.expression = cat("gpk::reduce_", name, "<",
                        info(stored_as(variant.functor, variant.in)).cuda_name, ", ", functor, ">");
  spec.bundled = is_common(variant.in);
  const bool sum = variant.functor == Functor::kSum;
  const bool extreme = is_extreme(variant.functor);
  spec.prefetched = (variant.in == DType::kFloat32 && is_common(variant.functor)) ||
                    (variant.in == DType::kInt64 && sum) ||
                    (variant.in == DType::kUInt8 && extreme);  // any, all
  return spec;
}

std::vector<Variant> all_variants() {
  std::vector<Variant> found;
  const auto add = [&](const Variant& variant) {
    for (const Variant& other : found)
      if (other == variant) return;
    found.push_back(variant);
  };
  for (int f = 0; f < kNumFunctors; ++f) {
    const auto functor = static_cast<Functor>(f);
    for (const DTypeInfo& row : gpk::detail::kDTypes) {
      if (is_storage_only(row.dtype)) continue;
      for (const auto result : {class_of(row.dtype), ResultClass::kReal}) {
        // Means and variances of integers are real; sums and products may be asked to be.
        const bool real_only = functor == Functor::kVar || functor == Functor::kNanMean;
        if (real_only && result == ResultClass::kInteger) continue;
        add({ReduceKernel::kGeneral, functor, general_value(functor, row.dtype, result),
             DType::kBool});
      }
      const auto value = exact_value(functor, row.dtype);
      if (!value) continue;
      const DType in = stored_as(functor, row.dtype);
      add({ReduceKernel::kRows, functor, *value, in});
      add({ReduceKernel::kColumns, functor, *value, in});
      add({ReduceKernel::kEvenRows, functor, *value, in});
    }
  }
  return found;
}

}  // namespace gpk::ops::reduction
