// Which engine takes which formats, and how all others are refused. Pure values, no GPU.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/text.h"
#include "ops/matmul/formats.h"

namespace gpk::ops::gemm {
namespace {

using plan::OperandFormat;
using plan::Packing;
using plan::ScaleLayout;

OperandFormat plain(DType dtype) { return {.dtype = dtype}; }
OperandFormat scaled(DType dtype, ScaleLayout scales, DType scale_dtype = DType::kFloat32,
                     std::uint8_t block = 0) {
  return {.dtype = dtype, .scales = scales, .scale_dtype = scale_dtype, .scale_block = block};
}

const OperandFormat kBf16 = plain(DType::kBFloat16), kF32 = plain(DType::kFloat32);
const OperandFormat kE4m3 = plain(DType::kFloat8E4M3FN), kE5m2 = plain(DType::kFloat8E5M2);
const OperandFormat kInt8Row = scaled(DType::kInt8, ScaleLayout::kRow);
const OperandFormat kInt8Column = scaled(DType::kInt8, ScaleLayout::kColumn);
const OperandFormat kE4m3Tensor = scaled(DType::kFloat8E4M3FN, ScaleLayout::kTensor);
const OperandFormat kE4m3Row = scaled(DType::kFloat8E4M3FN, ScaleLayout::kRow);
const OperandFormat kE4m3Column = scaled(DType::kFloat8E4M3FN, ScaleLayout::kColumn);
const OperandFormat kE4m3K128 =
    scaled(DType::kFloat8E4M3FN, ScaleLayout::kBlocksOfK, DType::kFloat32, 128);
const OperandFormat kE4m3Blocks = scaled(DType::kFloat8E4M3FN, ScaleLayout::kBlocks128x128);
const OperandFormat kInt4K64{
    DType::kUInt4, Packing::kInt4Pairs, ScaleLayout::kBlocksOfK, DType::kFloat16, 64, true};
const OperandFormat kInt4G64{
    DType::kUInt4, Packing::kInt4Pairs, ScaleLayout::kBlocksOfK, DType::kFloat32, 64, true};
const OperandFormat kNvf4{DType::kFloat4E2M1FN,
                          Packing::kNvf4Pairs,
                          ScaleLayout::kBlocksOfK,
                          DType::kFloat8E4M3FN,
                          16,
                          false};

const OperandFormat kSparse{.dtype = DType::kBFloat16, .packing = Packing::kSparse24};

MatmulDesc desc_of(const OperandFormat& a, const OperandFormat& b, DType c) {
  MatmulDesc desc;
  desc.a = a;
  desc.b = b;
  desc.dtype_c = c;
  desc.dtype_acc = accumulator(a.dtype);
  return desc;
}

MatmulDesc grouped(DType dtype, GroupKind kind, bool on_device) {
  MatmulDesc desc = desc_of(plain(dtype), plain(dtype), dtype);
  desc.groups = {kind, on_device, 8, 4096};
  return desc;
}

std::string engines(const MatmulDesc& desc) {
  std::string names;
  for (const MatmulEngine engine : engines_taking(desc))
    names += cat(names.empty() ? "" : " ", name(engine));
  return names;
}

TEST(MatmulFormats, EnginesByFormat) {
  struct Row {
    OperandFormat a, b;
    DType c;
    const char* engines;
  };
  constexpr DType bf16 = DType::kBFloat16, f32 = DType::kFloat32, i32 = DType::kInt32;
  const Row rows[] = {
      {kBf16, kBf16, bf16, "wgmma gemv mma general cublaslt"},
      {kBf16, kBf16, f32, "wgmma gemv mma general cublaslt"},
      {kF32, kF32, f32, "gemv simt general cublaslt"},
      {plain(DType::kFloat64), plain(DType::kFloat64), DType::kFloat64, "general cublaslt"},
      {plain(DType::kComplex64), plain(DType::kComplex64), DType::kComplex64, "general cublaslt"},
      {plain(DType::kBool), plain(DType::kBool), DType::kBool, "general"},
      {plain(DType::kInt8), plain(DType::kInt8), i32, "wgmma mma general cublaslt"},
      {plain(DType::kInt8), plain(DType::kInt8), DType::kInt8, "general"},
      {kE4m3, kE5m2, bf16, "wgmma mma general cublaslt"},
      {kE5m2, kE5m2, bf16, "wgmma mma general"},
      {kE4m3Tensor, kE4m3Tensor, f32, "wgmma mma general cublaslt"},
      {kE4m3Row, kE4m3Column, bf16, "wgmma mma general"},
      {kE4m3Row, kE4m3Tensor, bf16, "wgmma mma general"},
      {scaled(bf16, ScaleLayout::kRow), kBf16, bf16, "wgmma gemv mma general"},
      {kBf16, kInt4G64, bf16, "packed packed_gemm dequantize"},
      {kBf16, kInt4G64, f32, "packed packed_gemm dequantize"},
      {kF32, kInt4G64, f32, "dequantize"},
      {kBf16, kInt8Column, bf16, "packed packed_gemm dequantize"},
      {kBf16, kE4m3Column, bf16, "packed packed_gemm dequantize"},
      {kBf16, kE4m3K128, bf16, "packed packed_gemm dequantize"},
      {kBf16, kE4m3Blocks, bf16, "packed packed_gemm dequantize"},
      {kBf16, kNvf4, bf16, "packed packed_gemm dequantize"},
      {kE4m3K128, kE4m3Blocks, bf16, "block_scaled dequantize"},
      {kE4m3K128, kE4m3Blocks, f32, "block_scaled dequantize"},
      {kE4m3K128, kE4m3K128, bf16, "dequantize"},
      {kE4m3K128, kE4m3Column, bf16, ""},
      {kNvf4, kNvf4, f32, "scaled_mma dequantize"},
      {kBf16, kSparse, bf16, "sparse dequantize"},
      {kBf16, kSparse, f32, "sparse dequantize"},
      {kF32, kSparse, f32, "dequantize"},
      // No engine yet.
      {kInt8Row, kInt8Column, f32, ""},
      {kInt8Row, kInt8Column, i32, ""},
      {kBf16, kInt4K64, bf16, ""},
      {kNvf4, kNvf4, bf16, ""},
      {kBf16, kF32, f32, ""},
      {kBf16, kBf16, DType::kFloat16, ""},
      {scaled(bf16, ScaleLayout::kRow, DType::kFloat16), kBf16, bf16, ""},
  };
  for (const Row& row : rows)
    EXPECT_EQ(engines(desc_of(row.a, row.b, row.c)), row.engines)
        << to_string(row.a) << " x " << to_string(row.b) << " to " << name(row.c);
  MatmulDesc tf32 = desc_of(kF32, kF32, f32);
  tf32.tf32 = true;
  EXPECT_EQ(engines(tf32), "wgmma gemv mma simt general cublaslt");
  MatmulDesc sliced = desc_of(plain(DType::kFloat64), plain(DType::kFloat64), DType::kFloat64);
  sliced.float64_int8 = true;
  EXPECT_EQ(engines(sliced), "ozaki general cublaslt");
  sliced.a = sliced.b = kF32;
  EXPECT_EQ(engines(sliced), "");
}

TEST(MatmulFormats, EnginesByGroups) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    EXPECT_EQ(engines(grouped(dtype, GroupKind::kSizes, true)), "grouped");
    EXPECT_EQ(engines(grouped(dtype, GroupKind::kExpertIds, true)), "grouped");
  }
  EXPECT_EQ(engines(grouped(DType::kFloat16, GroupKind::kOffsets, true)), "");
  EXPECT_EQ(engines(grouped(DType::kFloat16, GroupKind::kSizes, false)), "");
  EXPECT_EQ(engines(grouped(DType::kInt8, GroupKind::kSizes, true)), "");
}

TEST(MatmulFormats, BlockScalesRunOnTensorCoresFromSm89On) {
  plan::Machine machine;
  MatmulDesc desc = desc_of(kE4m3K128, kE4m3Blocks, DType::kBFloat16);
  desc.problem.m = desc.problem.n = desc.problem.k = 1024;
  desc.problem.a_m = desc.problem.b_n = desc.problem.c_m = 1024;
  desc.problem.a_k = desc.problem.b_k = desc.problem.c_n = 1;
  for (const int sm : {89, 90, 100, 120})
    for (const int m : {70, 1024}) {
      machine.sm = sm;
      desc.problem.m = m;
      EXPECT_EQ(plan_matmul(desc, {machine}).engine, MatmulEngine::block_scaled) << sm << ", " << m;
    }
  machine.sm = 80;
  EXPECT_EQ(plan_matmul(desc, {machine}).engine, MatmulEngine::dequantize);
}

TEST(MatmulFormats, SlicesOfFloat64WhereTheyAreFaster) {
  plan::Machine machine;
  MatmulDesc desc = desc_of(plain(DType::kFloat64), plain(DType::kFloat64), DType::kFloat64);
  desc.float64_int8 = true;
  const auto engine = [&](int sm, std::int64_t size, std::int64_t k) {
    machine.sm = sm;
    desc.problem = {size, size, k, k, 1, 1, k, size, 1, {}, {}, {}, {}};
    return plan_matmul(desc, {machine}).engine;
  };
  EXPECT_EQ(engine(89, 2048, 2048), MatmulEngine::ozaki);  // 1/64 of float32's rate
  EXPECT_EQ(engine(120, 4096, 40000), MatmulEngine::ozaki);
  EXPECT_EQ(engine(89, 16, 16), MatmulEngine::general);
  EXPECT_EQ(engine(89, 2048, (1 << 20) + 1), MatmulEngine::general);  // sums would overflow
  desc.float64_int8 = false;
  EXPECT_EQ(engine(89, 2048, 2048), MatmulEngine::general);
}

TEST(MatmulFormats, WhatNoEngineTakesIsNotProposed) {
  const plan::Machine h200;
  MatmulDesc desc = desc_of(kE4m3K128, kE4m3Column, DType::kBFloat16);
  desc.problem.m = desc.problem.n = desc.problem.k = 1024;
  desc.problem.a_m = desc.problem.b_n = desc.problem.c_m = 1024;
  desc.problem.a_k = desc.problem.b_k = desc.problem.c_n = 1;
  EXPECT_TRUE(propose_matmul(desc, {h200}).empty());
  desc.a = desc.b = kE4m3;
  EXPECT_FALSE(propose_matmul(desc, {h200}).empty());
}

std::string refusal(const MatmulDesc& desc) {
  try {
    check_formats(desc, "some_op");
  } catch (const InvalidArgument& e) {
    EXPECT_EQ(e.kind(), InvalidArgument::Kind::kType);
    return e.what();
  }
  return "taken";
}

TEST(MatmulFormats, RefusalsNameOperandFormatAndWhatThereIs) {
  EXPECT_EQ(refusal(desc_of(kE4m3Row, kE4m3Blocks, DType::kBFloat16)),
            "some_op: a is float8_e4m3fn with float32 scale per row, b is float8_e4m3fn with "
            "float32 scale per block of 128x128, the result bfloat16; no engine takes them "
            "together");
  const std::string rows = refusal(desc_of(kInt4K64, kBf16, DType::kBFloat16));
  EXPECT_EQ(rows.find("some_op: a is "), 0u) << rows;
  EXPECT_NE(rows.find("which no engine takes; available: "), std::string::npos) << rows;
  EXPECT_NE(rows.find("float32 scale per row"), std::string::npos) << rows;
  EXPECT_EQ(refusal(desc_of(kBf16, kInt4K64, DType::kBFloat16))
                .find("some_op: b is uint4 in pairs with float16 scale per 64 of k and zero point, "
                      "which no engine takes"),
            0u);
  EXPECT_EQ(
      refusal(desc_of(kNvf4, kNvf4, DType::kBFloat16))
          .find("some_op: a is float4_e2m1fn in pairs with float8_e4m3fn scale per 16 of k, "),
      0u);
  EXPECT_EQ(refusal(desc_of(kBf16, kF32, DType::kFloat32)),
            "some_op: a is bfloat16, b is float32, the result float32; no engine takes them "
            "together");
  EXPECT_EQ(refusal(grouped(DType::kBFloat16, GroupKind::kOffsets, true)),
            "some_op: rows of bfloat16 grouped by offsets on the device, which no engine takes; "
            "available: sizes on the device, expert ids on the device");
  EXPECT_EQ(refusal(desc_of(kBf16, kBf16, DType::kBFloat16)), "taken");
}

TEST(MatmulFormats, TransposedSwapsRowsAndColumns) {
  const MatmulDesc desc = desc_of(kE4m3Row, kE5m2, DType::kBFloat16);
  const MatmulDesc t = transposed(desc);
  EXPECT_EQ(t.a, kE5m2);
  EXPECT_EQ(t.b, kE4m3Column);
  EXPECT_EQ(transposed(t), desc);
}

TEST(MatmulFormats, RawSumsHaveNoScalesOfTheEpilogue) {
  EXPECT_TRUE(raw_desc(desc_of(kE4m3Row, kE4m3Column, DType::kBFloat16)).a.is_plain());
  EXPECT_EQ(raw_desc(desc_of(kE4m3K128, kE4m3Blocks, DType::kBFloat16)).b, kE4m3Blocks);
}

}  // namespace
}  // namespace gpk::ops::gemm
