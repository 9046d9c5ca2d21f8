// Which code a reduction runs: the functor of kernels/reduction, the type it computes in, and
// whether kernels of their own exist for the input's dtype.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/dtype.h"
#include "jit/builtin.h"
#include "ops/reduction/plan.h"

namespace gpk::ops::reduction {

enum class Functor : std::uint8_t {
#define GPK_FUNCTOR(name, exact) k##name,
#include "ops/reduction/functors.def"
};
inline constexpr int kNumFunctors = 0
#define GPK_FUNCTOR(name, exact) +1
#include "ops/reduction/functors.def"
    ;

// Types that kernels compute in.
enum class ValueType : std::uint8_t {
  kNone,  // the functor has one type only
  kInt,
  kLongLong,
  kUnsignedLongLong,
  kFloat,
  kDouble,
  kComplex64,
  kComplex128,
};

const char* value_name(ValueType value);  // "long long" in kernels; "" for kNone

struct Variant {
  ReduceKernel kernel;
  Functor functor;
  ValueType value;
  DType in;  // kBool for the general kernel, which is told at run time
  friend bool operator==(const Variant&, const Variant&) = default;
};

// Classes that results can be converted within.
enum class ResultClass : std::uint8_t { kInteger, kReal, kComplex };
ResultClass class_of(DType dtype);

// The type the general kernel computes in: for arithmetic results, the result's class decides.
ValueType general_value(Functor functor, DType in, ResultClass result);

// The type that rows and columns kernels compute in; nullopt when there are none for the dtype.
std::optional<ValueType> exact_value(Functor functor, DType in);

std::uint64_t pack(const Variant& variant);
jit::KernelSpec reduce_spec(const Variant& variant, const char* op);
std::vector<Variant> all_variants();

}  // namespace gpk::ops::reduction
