// Layouts of quantised checkpoints to ours: pure functions on host memory, one for each published
// format. w is [n, k].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/quantize/packed_weight.h"

namespace gpk::llm {

// A packed weight in host memory, with float32 scales. nvfp4 and mx do not come this way.
struct HostPacked {
  ops::PackedLayout layout;
  std::int64_t n = 0, k = 0;
  std::vector<std::uint8_t> values;  // [n, row_bytes]
  std::vector<float> scales;         // [n, groups], of blocks [ceil(n / 128), ceil(k / 128)]
  std::vector<std::uint8_t> zeros;   // as the scales; empty: none
};

using Words = std::span<const std::uint32_t>;
using Bytes = std::span<const std::uint8_t>;
using Floats = std::span<const float>;

// AWQ (AutoAWQ GEMM): qweight [k, n / 8] and qzeros [k / group, n / 8] of int32 with the columns
// 0 2 4 6 1 3 5 7 from the low nibble on; scales [k / group, n].
HostPacked from_awq(Words qweight, Words qzeros, Floats scales, std::int64_t n, std::int64_t k,
                    std::int64_t group);

// GPTQ: qweight [k * bits / 32, n] with consecutive k from the low bits on, qzeros
// [k / group, n * bits / 32] with consecutive columns, scales [k / group, n]. Zero points are
// stored less one unless `plain_zeros` (gptq_v2).
HostPacked from_gptq(Words qweight, Words qzeros, Floats scales, std::int64_t n, std::int64_t k,
                     std::int64_t group, int bits, bool plain_zeros);

// compressed-tensors, pack-quantized: weight_packed [n, k * bits / 32] of int32 with consecutive k
// from the low bits on, offset by half of the range; weight_scale [n, groups]. zeros: packed as the
// weights, along n: [n * bits / 32, groups]; empty: symmetric.
HostPacked from_pack_quantized(Words packed, Floats scales, Words zeros, std::int64_t n,
                               std::int64_t k, std::int64_t group, int bits);

// Plain int8 or e4m3 [n, k] with a scale per row or one for all (`scales` of one element).
HostPacked from_rows(Bytes values, Floats scales, std::int64_t n, std::int64_t k,
                     ops::QuantFormat format);

// e4m3 [n, k] with a scale for each block of 128 x 128 (DeepSeek's weight_scale_inv).
HostPacked from_fp8_blocks(Bytes values, Floats scales, std::int64_t n, std::int64_t k);

// bitsandbytes nf4: two indices to a byte, high nibble first, blocks of 64 along the rows; k is a
// multiple of 64. absmax [n * k / 64].
HostPacked from_nf4(Bytes values, Floats absmax, std::int64_t n, std::int64_t k);

// absmax of double quantisation: map[code] * scale of its block + offset.
std::vector<float> nested_absmax(Bytes codes, Floats map, Floats scales, std::int64_t block,
                                 float offset);

// Rows of all parts, one after the other: they have one k and one layout. Blocks of 128 x 128
// become groups of 128 in each row where a part does not end with one, or without `keep_blocks`.
// Throws InvalidArgument where layouts differ.
HostPacked join_rows(std::vector<HostPacked> parts, bool keep_blocks, const std::string& what);

ops::PackedWeight to_device(const HostPacked& packed, DType dtype, Device device);

}  // namespace gpk::llm
