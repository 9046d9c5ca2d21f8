#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jit/signature.h"
#include "jit/token.h"

namespace gpk::jit {
namespace {

Param only_param(const std::string& declaration, const std::string& prefix = {}) {
  const auto signature =
      parse_signature(prefix + "\n__global__ void f(" + declaration + ") {}", "f");
  EXPECT_TRUE(signature.has_value()) << declaration;
  if (!signature || signature->params.size() != 1) {
    ADD_FAILURE() << declaration;
    return {};
  }
  return signature->params[0];
}

struct ScalarCase {
  const char* text;
  ParamKind kind;
  std::uint32_t bytes;
  std::optional<DType> dtype;
};

TEST(Signature, Scalars) {
  constexpr auto kS = ParamKind::kSigned;
  constexpr auto kU = ParamKind::kUnsigned;
  constexpr auto kF = ParamKind::kFloat;
  constexpr auto kO = ParamKind::kOpaque;
  const std::vector<ScalarCase> cases{
      {"int x", kS, 4, DType::kInt32},
      {"char x", kS, 1, DType::kInt8},
      {"signed char x", kS, 1, DType::kInt8},
      {"unsigned char x", kU, 1, DType::kUInt8},
      {"short int x", kS, 2, DType::kInt16},
      {"unsigned short x", kU, 2, DType::kUInt16},
      {"unsigned x", kU, 4, DType::kUInt32},
      {"unsigned int const x", kU, 4, DType::kUInt32},
      {"const  unsigned\n int x", kU, 4, DType::kUInt32},
      {"long long x", kS, 8, DType::kInt64},
      {"long long int x", kS, 8, DType::kInt64},
      {"unsigned long long x", kU, 8, DType::kUInt64},
      {"long unsigned long x", kU, 8, DType::kUInt64},
      {"size_t x", kU, 8, DType::kUInt64},
      {"std::uint32_t x", kU, 4, DType::kUInt32},
      {"::std::int64_t x", kS, 8, DType::kInt64},
      {"cuda::std::int8_t x", kS, 1, DType::kInt8},
      {"uint8_t x", kU, 1, DType::kUInt8},
      {"bool x", ParamKind::kBool, 1, DType::kBool},
      {"float x", kF, 4, DType::kFloat32},
      {"double x = 1.0", kF, 8, DType::kFloat64},
      {"half x", kF, 2, DType::kFloat16},
      {"__half x", kF, 2, DType::kFloat16},
      {"__nv_bfloat16 x", kF, 2, DType::kBFloat16},
      {"gpk::bfloat16 x", kF, 2, DType::kBFloat16},
      {"float2 x", kO, 8, std::nullopt},
      {"float3 x", kO, 12, std::nullopt},
      {"double4 x", kO, 32, std::nullopt},
      {"uchar3 x", kO, 3, std::nullopt},
      {"ulonglong2 x", kO, 16, std::nullopt},
      {"__half2 x", kO, 4, std::nullopt},
      {"dim3 x", kO, 12, std::nullopt},
      {"const __grid_constant__ CUtensorMap x", kO, 128, std::nullopt},
      {"const __grid_constant__ Foo x", kO, 0, std::nullopt},
      {"struct Foo x", kO, 0, std::nullopt},
      {"Box<int, 4> x", kO, 0, std::nullopt},
      {"typename Box<int>::type x", kO, 0, std::nullopt},
      {"float5 x", kO, 0, std::nullopt},
      {"void (*x)(int, float*)", kO, 8, std::nullopt},
  };
  for (const ScalarCase& c : cases) {
    const Param p = only_param(c.text);
    EXPECT_EQ(p.name, "x") << c.text;
    EXPECT_EQ(p.kind, c.kind) << c.text;
    EXPECT_EQ(p.bytes, c.bytes) << c.text;
    EXPECT_EQ(p.dtype, c.dtype) << c.text;
  }
#ifndef _WIN32
  EXPECT_EQ(only_param("long x").bytes, 8u);
  EXPECT_EQ(only_param("unsigned long x").dtype, DType::kUInt64);
#endif
}

struct PointerCase {
  const char* text;
  std::optional<DType> dtype;
  bool is_const;
};

TEST(Signature, Pointers) {
  const std::vector<PointerCase> cases{
      {"float* x", DType::kFloat32, false},
      {"float *x", DType::kFloat32, false},
      {"const float* __restrict__ x", DType::kFloat32, true},
      {"float const * const __restrict__ x", DType::kFloat32, true},
      {"float* const x", DType::kFloat32, false},
      {"const volatile int* x", DType::kInt32, true},
      {"char* x", DType::kInt8, false},
      {"signed char* x", DType::kInt8, false},
      {"unsigned char* x", DType::kUInt8, false},
      {"bool* x", DType::kBool, false},
      {"half* x", DType::kFloat16, false},
      {"const __half* x", DType::kFloat16, true},
      {"__nv_bfloat16* x", DType::kBFloat16, false},
      {"__nv_fp8_e4m3* x", DType::kFloat8E4M3FN, false},
      {"long long* x", DType::kInt64, false},
      {"void* x", std::nullopt, false},
      {"const void* x", std::nullopt, true},
      {"float4* x", std::nullopt, false},
      {"cuFloatComplex* x", std::nullopt, false},
      {"Foo* x", std::nullopt, false},
      {"float** x", std::nullopt, false},
      {"const float* const* x", std::nullopt, true},
      {"const float** x", std::nullopt, false},
      {"float (*x)", DType::kFloat32, false},
      {"const float (*x)[4]", DType::kFloat32, true},
      {"float x[]", DType::kFloat32, false},
      {"const int x[16]", DType::kInt32, true},
  };
  for (const PointerCase& c : cases) {
    const Param p = only_param(c.text);
    EXPECT_EQ(p.name, "x") << c.text;
    EXPECT_EQ(p.kind, ParamKind::kPointer) << c.text;
    EXPECT_EQ(p.bytes, 8u) << c.text;
    EXPECT_EQ(p.dtype, c.dtype) << c.text;
    EXPECT_EQ(p.is_const, c.is_const) << c.text;
  }
}

TEST(Signature, UnnamedAndSpelling) {
  EXPECT_EQ(only_param("int").name, "");
  EXPECT_EQ(only_param("const Foo&").kind, ParamKind::kOpaque);
  EXPECT_EQ(only_param("float*").name, "");
  EXPECT_EQ(only_param("const float *__restrict__ x").type, "const float* __restrict__");
  EXPECT_EQ(only_param("unsigned   int\tconst x").type, "unsigned int const");
  EXPECT_EQ(only_param("Box< int,4 > x").type, "Box<int, 4>");
  EXPECT_EQ(only_param("std::uint32_t x").type, "std::uint32_t");
  EXPECT_EQ(only_param("int x = sizeof(int) < 8 ? 1 : 2").type, "int");
}

TEST(Signature, Aliases) {
  EXPECT_EQ(only_param("real* x", "using real = float;").dtype, DType::kFloat32);
  EXPECT_EQ(only_param("u64 x", "typedef unsigned long long u64;").bytes, 8u);
  EXPECT_EQ(only_param("Ptr x", "using Ptr = const float*;").kind, ParamKind::kPointer);
  EXPECT_TRUE(only_param("Ptr x", "using Ptr = const float*;").is_const);
  EXPECT_EQ(only_param("B x", "using A = int; using B = A;").dtype, DType::kInt32);
  EXPECT_EQ(only_param("A x", "using A = B; using B = A;").kind, ParamKind::kOpaque);
  // Two meanings: no guess.
  const char* two = "namespace a { using T = int; } namespace b { using T = float; }";
  EXPECT_EQ(only_param("T x", two).kind, ParamKind::kOpaque);
}

TEST(Signature, FindsTheDeclaration) {
  const std::string source = R"src(
    // __global__ void comment(int a);
    /* __global__ void block(int a); */
    #define K \
      __global__ void macro(int a)
    const char* text = "__global__ void text(int a)";
    const char* raw = R"x(__global__ void raw(int a) ")x";
    __device__ float helper(float v) { return v * 1'000.f; }
    extern "C" __global__ void __launch_bounds__(256, 2) plain(const float* x, float* y, int n);
    extern "C" {
    __global__ __cluster_dims__(2, 1, 1) __launch_bounds__(sizeof(int) * 64) static void
    attributes(int a /* , int hidden */, // int b
               float c) { if (a < 1) { } }
    }
    namespace ns { namespace inner { __global__ void deep(void) {} }
    __global__ void scale(float* x) {} }
    namespace a::b { __global__ void scale(int* x, int n) {} }
    void __global__ [[maybe_unused]] swapped(double* d) {}
  )src";
  EXPECT_EQ(list_kernels(source),
            (std::vector<std::string>{"plain", "attributes", "ns::inner::deep", "ns::scale",
                                      "a::b::scale", "swapped"}));
  EXPECT_EQ(parse_signature(source, "plain")->params.size(), 3u);
  const auto attributes = parse_signature(source, "attributes");
  ASSERT_EQ(attributes->params.size(), 2u);
  EXPECT_EQ(attributes->params[0].name, "a");
  EXPECT_EQ(attributes->params[1].name, "c");
  EXPECT_TRUE(parse_signature(source, "deep")->params.empty());
  EXPECT_EQ(parse_signature(source, "scale")->function, "ns::scale");
  EXPECT_EQ(parse_signature(source, "b::scale")->params.size(), 2u);
  EXPECT_EQ(parse_signature(source, "::a::b::scale")->params.size(), 2u);
  EXPECT_EQ(parse_signature(source, "swapped")->params[0].dtype, DType::kFloat64);
  for (const char* name :
       {"comment", "block", "macro", "text", "raw", "helper", "x::scale", "", "<"}) {
    EXPECT_FALSE(parse_signature(source, name)) << name;
  }
}

TEST(Signature, Templates) {
  const std::string source = R"(
    template <typename T, int N, class U = T, bool kFlag = (N > 3)>
    __global__ void __launch_bounds__(N) f(T* x, const U* y, Vec<T, N> v, T s) {}
    template <> __global__ void f<char, 1>(char* only) {}
    template <class> struct Other {};
    template <typename T> requires Number<T> __global__ void g(T x) {}
    __global__ void h(int a) {}
  )";
  const auto plain = parse_signature(source, "f");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->template_params, (std::vector<std::string>{"T", "N", "U", "kFlag"}));
  EXPECT_EQ(plain->params[0].kind, ParamKind::kPointer);
  EXPECT_FALSE(plain->params[0].dtype);
  EXPECT_EQ(plain->params[3].kind, ParamKind::kOpaque);

  const auto made = parse_signature(source, "f<__half, 4>");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->function, "f");
  EXPECT_EQ(made->params[0].dtype, DType::kFloat16);
  EXPECT_EQ(made->params[1].dtype, DType::kFloat16);
  EXPECT_TRUE(made->params[1].is_const);
  EXPECT_EQ(made->params[2].type, "Vec<__half, 4>");
  EXPECT_EQ(made->params[3].bytes, 2u);
  EXPECT_EQ(parse_signature(source, "f<unsigned char, 4, double>")->params[1].dtype,
            DType::kFloat64);
  EXPECT_EQ(parse_signature(source, "f<float*, 4>")->params[3].kind, ParamKind::kPointer);
  EXPECT_EQ(parse_signature(source, "f<char, 1>")->params.size(), 1u);
  EXPECT_EQ(parse_signature(source, "g<int>")->params[0].dtype, DType::kInt32);
  EXPECT_TRUE(parse_signature(source, "h")->template_params.empty());
}

TEST(Signature, BrokenSourceNeverCrashes) {
  const std::string source =
      "template <typename T, int N = (1 < 2)> __global__ void f(T (*x)[N], int n = {3}) { \"a\\";
  for (std::size_t begin = 0; begin < source.size(); ++begin) {
    for (std::size_t size = 0; begin + size <= source.size(); ++size) {
      const std::string part = source.substr(begin, size);
      (void)list_kernels(part);
      (void)parse_signature(part, "f<float, 2>");
      (void)parse_signature(source, part);
    }
  }
}

TEST(Token, CommentsBecomeSpaces) {
  EXPECT_EQ(blank_comments("a//b\nc"), "a   \nc");
  EXPECT_EQ(blank_comments("a/*x\ny*/b"), "a   \n   b");
  EXPECT_EQ(blank_comments("\"//\" '/' '\"' //"), "\"//\" '/' '\"'   ");
  EXPECT_EQ(blank_comments("1'000 // x"), "1'000     ");
  EXPECT_EQ(blank_comments("// a \\\n b\nc"), "      \n  \nc");
}

}  // namespace
}  // namespace gpk::jit
