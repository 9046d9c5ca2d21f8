#include "llm/checkpoint_layouts.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "device/host_copy.h"

namespace gpk::llm {
namespace {

using ops::QuantFormat;

constexpr int kAwqColumns[8] = {0, 2, 4, 6, 1, 3, 5, 7};  // of the nibbles, from the low one on

HostPacked make_host(const ops::PackedLayout& layout, std::int64_t n, std::int64_t k) {
  HostPacked packed{layout, n, k, {}, {}, {}};
  packed.values.resize(static_cast<std::size_t>(n * layout.row_bytes(k)));
  const std::int64_t rows = ceil_div(n, layout.scale_rows());
  const auto scales = static_cast<std::size_t>(rows * layout.num_groups(k));
  packed.scales.resize(scales);
  if (layout.zero_points) packed.zeros.resize(scales);
  return packed;
}

void put(HostPacked& packed, std::int64_t row, std::int64_t l, unsigned code) {
  const std::int64_t first = row * packed.layout.row_bytes(packed.k);
  if (!packed.layout.is_nibble()) {
    packed.values[static_cast<std::size_t>(first + l)] = static_cast<std::uint8_t>(code);
    return;
  }
  auto& byte = packed.values[static_cast<std::size_t>(first + l / 2)];
  byte = static_cast<std::uint8_t>(byte | code << (l % 2 * 4));
}

unsigned field(Words words, std::int64_t word, std::int64_t index, int bits) {
  return words[static_cast<std::size_t>(word)] >> (index * bits) & ((1u << bits) - 1u);
}

QuantFormat integer_format(int bits) { return bits == 4 ? QuantFormat::kInt4 : QuantFormat::kInt8; }

std::int64_t group_count(std::int64_t k, std::int64_t group) {
  return group == 0 ? 1 : ceil_div(k, group);
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Blocks of 128 x 128 as groups of 128 in each row.
void spread_blocks(HostPacked& packed) {
  const std::int64_t groups = packed.layout.num_groups(packed.k);
  std::vector<float> scales;
  for (std::int64_t row = 0; row < packed.n; ++row) {
    const auto first = packed.scales.begin() + row / 128 * groups;
    scales.insert(scales.end(), first, first + groups);
  }
  packed.scales = std::move(scales);
  packed.layout.blocks = false;
}

}  // namespace

HostPacked from_awq(Words qweight, Words qzeros, Floats scales, std::int64_t n, std::int64_t k,
                    std::int64_t group) {
  HostPacked packed = make_host({QuantFormat::kInt4, group, true, false}, n, k);
  const std::int64_t words = n / 8;
  const std::int64_t groups = group_count(k, group);
  for (std::int64_t word = 0; word < words; ++word)
    for (int i = 0; i < 8; ++i) {
      const std::int64_t row = word * 8 + kAwqColumns[i];
      for (std::int64_t l = 0; l < k; ++l)
        put(packed, row, l, field(qweight, l * words + word, i, 4));
      for (std::int64_t g = 0; g < groups; ++g) {
        const auto at = static_cast<std::size_t>(row * groups + g);
        packed.scales[at] = scales[static_cast<std::size_t>(g * n + row)];
        packed.zeros[at] = static_cast<std::uint8_t>(field(qzeros, g * words + word, i, 4));
      }
    }
  return packed;
}

HostPacked from_gptq(Words qweight, Words qzeros, Floats scales, std::int64_t n, std::int64_t k,
                     std::int64_t group, int bits, bool plain_zeros) {
  HostPacked packed = make_host({integer_format(bits), group, true, false}, n, k);
  const int per_word = 32 / bits;
  const std::int64_t words = n / per_word;
  const std::int64_t groups = group_count(k, group);
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t l = 0; l < k; ++l)
      put(packed, row, l, field(qweight, l / per_word * n + row, l % per_word, bits));
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto at = static_cast<std::size_t>(row * groups + g);
      const unsigned stored = field(qzeros, g * words + row / per_word, row % per_word, bits);
      packed.scales[at] = scales[static_cast<std::size_t>(g * n + row)];
      packed.zeros[at] = static_cast<std::uint8_t>(plain_zeros ? stored : stored + 1);
    }
  }
  return packed;
}

HostPacked from_pack_quantized(Words words, Floats scales, Words zeros, std::int64_t n,
                               std::int64_t k, std::int64_t group, int bits) {
  HostPacked packed = make_host({integer_format(bits), group, !zeros.empty(), false}, n, k);
  const int per_word = 32 / bits;
  const std::int64_t row_words = ceil_div(k, per_word);
  const std::int64_t groups = group_count(k, group);
  const unsigned half = 1u << (bits - 1);
  // Stored values are offset by half: signed ones where there are no zero points.
  const unsigned flip = zeros.empty() ? half : 0;
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t l = 0; l < k; ++l)
      put(packed, row, l, field(words, row * row_words + l / per_word, l % per_word, bits) ^ flip);
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto at = static_cast<std::size_t>(row * groups + g);
      packed.scales[at] = scales[at];
      if (!zeros.empty())
        packed.zeros[at] = static_cast<std::uint8_t>(
            field(zeros, row / per_word * groups + g, row % per_word, bits));
    }
  }
  return packed;
}

HostPacked from_rows(Bytes values, Floats scales, std::int64_t n, std::int64_t k,
                     QuantFormat format) {
  HostPacked packed = make_host({format, 0, false, false}, n, k);
  const std::int64_t pitch = packed.layout.row_bytes(k);
  for (std::int64_t row = 0; row < n; ++row) {
    std::copy_n(values.begin() + row * k, k, packed.values.begin() + row * pitch);
    packed.scales[static_cast<std::size_t>(row)] =
        scales.size() == 1 ? scales[0] : scales[static_cast<std::size_t>(row)];
  }
  return packed;
}

HostPacked from_fp8_blocks(Bytes values, Floats scales, std::int64_t n, std::int64_t k) {
  HostPacked packed = make_host({QuantFormat::kFp8, 128, false, true}, n, k);
  const std::int64_t pitch = packed.layout.row_bytes(k);
  for (std::int64_t row = 0; row < n; ++row)
    std::copy_n(values.begin() + row * k, k, packed.values.begin() + row * pitch);
  std::copy(scales.begin(), scales.end(), packed.scales.begin());
  return packed;
}

HostPacked from_nf4(Bytes values, Floats absmax, std::int64_t n, std::int64_t k) {
  HostPacked packed = make_host({QuantFormat::kNf4, 64, false, false}, n, k);
  for (std::int64_t row = 0; row < n; ++row)
    for (std::int64_t l = 0; l < k; l += 2) {
      const std::uint8_t byte = values[static_cast<std::size_t>((row * k + l) / 2)];
      put(packed, row, l, byte >> 4);
      put(packed, row, l + 1, byte & 15u);
    }
  std::copy(absmax.begin(), absmax.end(), packed.scales.begin());
  return packed;
}

std::vector<float> nested_absmax(Bytes codes, Floats map, Floats scales, std::int64_t block,
                                 float offset) {
  std::vector<float> absmax(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i)
    absmax[i] = map[codes[i]] * scales[i / static_cast<std::size_t>(block)] + offset;
  return absmax;
}

HostPacked join_rows(std::vector<HostPacked> parts, bool keep_blocks, const std::string& what) {
  // A part that does not end with a block: its last block would cover rows of the next one.
  bool whole = keep_blocks;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) whole = whole && parts[i].n % 128 == 0;
  for (HostPacked& part : parts)
    if (part.layout.blocks && !whole) spread_blocks(part);
  HostPacked joined = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].layout != joined.layout || parts[i].k != joined.k)
      throw InvalidArgument(cat("load: the tensors of ", what, " have different formats: ",
                                to_string(joined.layout), " and ", to_string(parts[i].layout)));
    joined.n += parts[i].n;
    append(joined.values, parts[i].values);
    append(joined.scales, parts[i].scales);
    append(joined.zeros, parts[i].zeros);
  }
  return joined;
}

ops::PackedWeight to_device(const HostPacked& p, DType dtype, Device device) {
  const std::int64_t groups = p.layout.num_groups(p.k);
  const Dims scales{ceil_div(p.n, p.layout.scale_rows()), groups};
  using device::from_host;
  ops::PackedWeight weight{
      p.layout,
      {p.n, p.k},
      dtype,
      from_host(p.values.data(), {p.n, p.layout.row_bytes(p.k)}, DType::kUInt8, device),
      from_host(p.scales.data(), scales, DType::kFloat32, device)};
  if (p.layout.zero_points)
    weight.zero_points = from_host(p.zeros.data(), scales, DType::kUInt8, device);
  check_packed(weight, "load");
  return weight;
}

}  // namespace gpk::llm
