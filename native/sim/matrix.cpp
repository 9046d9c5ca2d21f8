#include "sim/matrix.h"

#include <bit>
#include <cmath>

#include "sim/alu.h"
#include "sim/checks.h"
#include "sim/machine.h"
#include "sim/memory.h"
#include "sim/races.h"

namespace gpk::sim {
namespace {

const std::int32_t* arguments(const Op& op, const Warp& warp) {
  return warp.frame->function->args.data() + op.args + 1;
}

float float_of(Type type, std::uint32_t bits) {
  switch (type) {
    case Type::kF16: return float_of_half(static_cast<std::uint16_t>(bits));
    case Type::kBf16: return float_of_bf16(static_cast<std::uint16_t>(bits));
    case Type::kTf32: return std::bit_cast<float>(bits & 0xffffe000u);
    case Type::kE4m3: return static_cast<float>(value_of(kFormatE4m3, bits & 0xff));
    case Type::kE5m2: return static_cast<float>(value_of(kFormatE5m2, bits & 0xff));
    default: return std::bit_cast<float>(bits);
  }
}

std::int32_t integer_of(Type type, std::uint32_t value) {
  return type == Type::kS8 ? static_cast<std::int8_t>(value)
                           : static_cast<std::int32_t>(value & 0xff);
}

// Of four bits, which s8 or u8 stands for.
std::int32_t nibble_of(Type type, std::uint32_t value) {
  const auto low = static_cast<std::int32_t>(value & 0xf);
  return type == Type::kS8 && low > 7 ? low - 16 : low;
}

void check_matrix(const Op& op, Warp& warp, std::uint64_t (&addresses)[kLanes], unsigned rows,
                  bool load) {
  const std::uint32_t lanes = rows >= 32 ? kFull : (1u << rows) - 1;
  if (warp.grid->options->counts) [[unlikely]]
    count_access(Space::kShared, op, warp, lanes, addresses, 16);
  if (warp.block->shadow) [[unlikely]]
    check_access(Space::kShared, load, op, warp, lanes, addresses, 16, true);
}

void row_addresses(const Op& op, Warp& warp, std::uint64_t (&addresses)[kLanes]) {
  const std::int32_t* args = arguments(op, warp);
  const auto offset = static_cast<std::uint32_t>(args[op.count]);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const std::uint64_t base = lane_address(op, warp, op.a, lane);
    addresses[lane] = static_cast<std::uint32_t>(base) + offset;
  }
}

std::byte* row(const Op& op, Warp& warp, const std::uint64_t (&addresses)[kLanes], unsigned lane) {
  (void)op;
  if (addresses[lane] % 16 != 0)
    throw Fault{"misaligned", lane,
                "row of a matrix at " + hex(addresses[lane]) + ", not aligned to 16 bytes"};
  return shared_bytes(warp, static_cast<std::uint32_t>(addresses[lane]), 16, lane);
}

}  // namespace

void load_matrices(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* cells = arguments(op, warp);
  std::uint64_t addresses[kLanes];
  row_addresses(op, warp, addresses);
  check_matrix(op, warp, addresses, 8u * op.count, true);
  std::uint32_t values[4][kLanes];
  for (unsigned matrix = 0; matrix < op.count; ++matrix) {
    std::uint16_t elements[8][8];
    for (unsigned r = 0; r < 8; ++r)
      std::memcpy(elements[r], row(op, warp, addresses, 8 * matrix + r), 16);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned g = lane / 4, t = lane % 4 * 2;
      const std::uint32_t low = op.mode != 0 ? elements[t][g] : elements[g][t];
      const std::uint32_t high = op.mode != 0 ? elements[t + 1][g] : elements[g][t + 1];
      values[matrix][lane] = high << 16 | low;
    }
  }
  for (unsigned matrix = 0; matrix < op.count; ++matrix)
    for_lanes(mask, [&](unsigned lane) {
      warp.cell<std::uint32_t>(cells[matrix])[lane] = values[matrix][lane];
    });
}

void store_matrices(const Op& op, Warp& warp, std::uint32_t) {
  const std::int32_t* cells = arguments(op, warp);
  std::uint64_t addresses[kLanes];
  row_addresses(op, warp, addresses);
  check_matrix(op, warp, addresses, 8u * op.count, false);
  for (unsigned matrix = 0; matrix < op.count; ++matrix) {
    std::uint16_t elements[8][8];
    const auto* values = warp.source<std::uint32_t>(cells[matrix]);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned g = lane / 4, t = lane % 4 * 2;
      (op.mode != 0 ? elements[t][g] : elements[g][t]) = static_cast<std::uint16_t>(values[lane]);
      (op.mode != 0 ? elements[t + 1][g] : elements[g][t + 1]) =
          static_cast<std::uint16_t>(values[lane] >> 16);
    }
    for (unsigned r = 0; r < 8; ++r) {
      std::byte* to = row(op, warp, addresses, 8 * matrix + r);
      std::memcpy(to, elements[r], 16);
    }
  }
}

namespace {

// Fragments of 16 rows (or 8): register r of A holds row g + 8 (r % 2), from column
// (lane % 4) e + (r / 2) 4e on, e elements each; B likewise by column.
struct Fragments {
  unsigned rows, columns, depth, per_register;
};

template <class T, class Read>
void gather_a(const Warp& warp, const std::int32_t* cells, unsigned count, const Fragments& shape,
              unsigned bits, T* out, Read read) {
  for (unsigned r = 0; r < count; ++r) {
    const auto* values = warp.source<std::uint32_t>(cells[r]);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned line = lane / 4 + (shape.rows == 16 ? 8 * (r % 2) : 0);
      const unsigned first =
          lane % 4 * shape.per_register + (shape.rows == 16 ? r / 2 : r) * 4 * shape.per_register;
      for (unsigned i = 0; i < shape.per_register; ++i)
        out[line * shape.depth + first + i] = read(values[lane] >> (bits * i));
    }
  }
}

template <class T, class Read>
void gather_b(const Warp& warp, const std::int32_t* cells, unsigned count, const Fragments& shape,
              unsigned bits, T* out, Read read) {
  for (unsigned r = 0; r < count; ++r) {
    const auto* values = warp.source<std::uint32_t>(cells[r]);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned first = lane % 4 * shape.per_register + r * 4 * shape.per_register;
      for (unsigned i = 0; i < shape.per_register; ++i)
        out[(first + i) * shape.columns + lane / 4] = read(values[lane] >> (bits * i));
    }
  }
}

// Element i of a lane of an accumulator: its row and column.
struct At {
  unsigned row, column;
};
At accumulator_at(unsigned lane, unsigned i) {
  return {lane / 4 + 8 * (i % 4 / 2), i / 4 * 8 + lane % 4 * 2 + i % 2};
}

template <class Body>
void accumulators(unsigned count, Body&& body) {
  for (unsigned i = 0; i < count; ++i)
    for (unsigned lane = 0; lane < kLanes; ++lane) body(lane, i, accumulator_at(lane, i));
}

void read_floats(const Warp& warp, const std::int32_t* cells, Type type, unsigned elements,
                 unsigned columns, float* out) {
  accumulators(elements, [&](unsigned lane, unsigned i, At at) {
    float value = 0;
    if (type == Type::kF16)
      value = float_of_half(static_cast<std::uint16_t>(
          warp.source<std::uint32_t>(cells[i / 2])[lane] >> (16 * (i % 2))));
    else
      value = warp.source<float>(cells[i])[lane];
    out[at.row * columns + at.column] = value;
  });
}

void write_floats(Warp& warp, const std::int32_t* cells, Type type, unsigned elements,
                  unsigned columns, const float* in, std::uint32_t mask) {
  accumulators(elements, [&](unsigned lane, unsigned i, At at) {
    if ((mask >> lane & 1) == 0) return;
    const float value = in[at.row * columns + at.column];
    if (type == Type::kF16) {
      std::uint32_t& word = warp.cell<std::uint32_t>(cells[i / 2])[lane];
      const std::uint32_t half = half_of_float(value);
      word = i % 2 == 0 ? (word & 0xffff0000u) | half : (word & 0xffffu) | half << 16;
    } else {
      warp.cell<float>(cells[i])[lane] = value;
    }
  });
}

void write_integers(Warp& warp, const std::int32_t* cells, bool saturate, unsigned elements,
                    unsigned columns, const std::int64_t* in, std::uint32_t mask) {
  accumulators(elements, [&](unsigned lane, unsigned i, At at) {
    if ((mask >> lane & 1) == 0) return;
    std::int64_t value = in[at.row * columns + at.column];
    if (saturate) value = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : value;
    warp.cell<std::uint32_t>(cells[i])[lane] = static_cast<std::uint32_t>(value);
  });
}

void multiply_doubles(Warp& warp, const MmaShape& shape, const std::int32_t* d,
                      const std::int32_t* a, const std::int32_t* b, const std::int32_t* c,
                      std::uint32_t mask) {
  double left[16 * 16], right[16 * 8], sums[16 * 8];
  const auto depth = static_cast<unsigned>(shape.k);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    for (unsigned r = 0; r < static_cast<unsigned>(shape.a_count); ++r) {
      const unsigned line = lane / 4 + (shape.m == 16 ? 8 * (r % 2) : 0);
      left[line * depth + lane % 4 + (shape.m == 16 ? r / 2 : r) * 4] =
          warp.source<double>(a[r])[lane];
    }
    for (unsigned r = 0; r < static_cast<unsigned>(shape.b_count); ++r)
      right[(lane % 4 + 4 * r) * 8 + lane / 4] = warp.source<double>(b[r])[lane];
  }
  const auto elements = static_cast<unsigned>(shape.d_count);
  accumulators(elements, [&](unsigned lane, unsigned i, At at) {
    sums[at.row * 8 + at.column] = warp.source<double>(c[i])[lane];
  });
  for (unsigned m = 0; m < static_cast<unsigned>(shape.m); ++m)
    for (unsigned n = 0; n < 8; ++n)
      for (unsigned k = 0; k < depth; ++k)
        sums[m * 8 + n] = std::fma(left[m * depth + k], right[k * 8 + n], sums[m * 8 + n]);
  accumulators(elements, [&](unsigned lane, unsigned i, At at) {
    if ((mask >> lane & 1) != 0) warp.cell<double>(d[i])[lane] = sums[at.row * 8 + at.column];
  });
}

}  // namespace

void multiply_accumulate(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* args = arguments(op, warp);
  MmaShape shape;
  std::memcpy(&shape, args, sizeof shape);
  const std::int32_t* d = args + sizeof shape / sizeof(std::int32_t);
  const std::int32_t* a = d + shape.d_count;
  const std::int32_t* b = a + shape.a_count;
  const std::int32_t* c = b + shape.b_count;
  const auto d_type = static_cast<Type>(shape.d_type);
  const auto a_type = static_cast<Type>(shape.a_type), b_type = static_cast<Type>(shape.b_type);
  if (d_type == Type::kF64) return multiply_doubles(warp, shape, d, a, b, c, mask);
  const auto bits = static_cast<unsigned>(shape.bits);
  const Fragments fragments{static_cast<unsigned>(shape.m), 8, static_cast<unsigned>(shape.k),
                            32 / bits};
  const auto rows = static_cast<unsigned>(shape.m);
  const unsigned elements = rows * 8 / kLanes;
  const auto a_count = static_cast<unsigned>(shape.a_count),
             b_count = static_cast<unsigned>(shape.b_count);
  if (d_type == Type::kS32) {
    const auto read = bits == 4 ? nibble_of : integer_of;
    std::int32_t left[16 * 64], right[64 * 8];
    std::int64_t sums[16 * 8] = {};
    gather_a(warp, a, a_count, fragments, bits, left,
             [&](std::uint32_t x) { return read(a_type, x); });
    gather_b(warp, b, b_count, fragments, bits, right,
             [&](std::uint32_t x) { return read(b_type, x); });
    accumulators(elements, [&](unsigned lane, unsigned i, At at) {
      sums[at.row * 8 + at.column] = warp.source<std::int32_t>(c[i])[lane];
    });
    multiply_integers(left, right, sums, rows, 8, fragments.depth);
    return write_integers(warp, d, shape.saturate != 0, elements, 8, sums, mask);
  }
  float left[16 * 64], right[64 * 8], sums[16 * 8];
  const auto read_a = [&](std::uint32_t x) { return float_of(a_type, x); };
  if (shape.sparse != kDense) {
    float packed[16 * 16];
    const Fragments halved{rows, 8, fragments.depth / 2, fragments.per_register};
    gather_a(warp, a, a_count, halved, bits, packed, read_a);
    expand_sparse(shape, warp.source<std::uint32_t>(c[shape.d_count]), packed, left);
  } else {
    gather_a(warp, a, a_count, fragments, bits, left, read_a);
  }
  gather_b(warp, b, b_count, fragments, bits, right,
           [&](std::uint32_t x) { return float_of(b_type, x); });
  read_floats(warp, c, d_type, elements, 8, sums);
  multiply_floats(left, right, sums, rows, 8, fragments.depth);
  write_floats(warp, d, d_type, elements, 8, sums, mask);
}

// --- wgmma --------------------------------------------------------------------------------------
namespace {

// A matrix in shared memory as its 64-bit descriptor says.
class SharedMatrix {
 public:
  SharedMatrix(Warp& warp, std::uint64_t descriptor, unsigned element_bytes, bool transposed)
      : warp_(warp), bytes_(element_bytes), transposed_(transposed) {
    start_ = static_cast<std::uint32_t>(descriptor & 0x3fff) << 4;
    leading_ = static_cast<std::uint32_t>(descriptor >> 16 & 0x3fff) << 4;
    stride_ = static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4;
    static constexpr std::uint32_t kWidths[] = {16, 128, 64, 32};
    width_ = kWidths[descriptor >> 62];
  }

  // `outer`: the row of A or the column of B; `k`: along the depth.
  std::uint32_t at(unsigned outer, unsigned k) const {
    std::uint32_t address = start_;
    if (!transposed_) {
      const std::uint32_t along = k * bytes_;
      address += outer / 8 * stride_ + outer % 8 * width_;
      address += width_ == 16 ? along / 16 * leading_ + along % 16 : along;
    } else {
      const std::uint32_t per_line = width_ / bytes_;
      const bool plain = width_ == 16;
      address += outer / per_line * (plain ? stride_ : leading_) + outer % per_line * bytes_;
      address += k / 8 * (plain ? leading_ : stride_) + k % 8 * width_;
    }
    const std::uint32_t bits = width_ == 128 ? 7 : width_ == 64 ? 3 : width_ == 32 ? 1 : 0;
    return address ^ (address >> 7 & bits) << 4;
  }

  std::uint32_t bits(unsigned outer, unsigned k) const {
    const std::uint32_t address = at(outer, k);
    std::uint32_t value = 0;
    std::memcpy(&value, shared_bytes(warp_, address, bytes_, 0), bytes_);
    return value;
  }

  // `count` rows or columns from `first` on, read by the async proxy.
  void watch(const Access& read, unsigned first, unsigned count, unsigned depth) const {
    const unsigned run = 16 / bytes_;  // elements that stay together under every swizzle
    const unsigned step = transposed_ ? run : 1;
    for (unsigned outer = first; outer < first + count; outer += step)
      for (unsigned k = 0; k < depth; k += transposed_ ? 1 : run) {
        Block& block = *warp_.block;
        check_read(warp_, read.op, 0, block, at(outer, k), 16);
        race_shared(read, block, at(outer, k), 16);
      }
  }

 private:
  Warp& warp_;
  unsigned bytes_;
  bool transposed_;
  std::uint32_t start_ = 0, leading_ = 0, stride_ = 0, width_ = 16;
};

template <class T, class Read>
void read_operands(Warp& warp, const Op& op, const WgmmaShape& shape, const std::int32_t* a,
                   T* left, T* right, Read read_a, Read read_b) {
  Access access{warp, op, 0, false, false, true};
  if (warp.clock) {
    access.stamp = async_stamp(access, AsyncKind::kWgmma);
    watch_accumulators(warp, op, a - shape.d_count, static_cast<unsigned>(shape.d_count));
  }
  const auto a_type = static_cast<Type>(shape.a_type), b_type = static_cast<Type>(shape.b_type);
  const auto depth = static_cast<unsigned>(shape.k), columns = static_cast<unsigned>(shape.n);
  const unsigned bits = bytes_of(a_type) * 8;
  if (shape.a_count != 0) {
    const Fragments fragments{16, columns, depth, 32 / bits};
    gather_a(warp, a, static_cast<unsigned>(shape.a_count), fragments, bits, left,
             [&](std::uint32_t x) { return read_a(a_type, x); });
  } else {
    const SharedMatrix matrix(warp, warp.source<std::uint64_t>(a[0])[0], bytes_of(a_type),
                              shape.transpose_a != 0);
    if (warp.clock) matrix.watch(access, warp.index % 4 * 16, 16, depth);
    for (unsigned m = 0; m < 16; ++m)
      for (unsigned k = 0; k < depth; ++k)
        left[m * depth + k] = read_a(a_type, matrix.bits(warp.index % 4 * 16 + m, k));
  }
  const SharedMatrix matrix(warp, warp.source<std::uint64_t>(op.b)[0], bytes_of(b_type),
                            shape.transpose_b != 0);
  if (warp.clock) matrix.watch(access, 0, columns, depth);
  for (unsigned n = 0; n < columns; ++n)
    for (unsigned k = 0; k < depth; ++k) right[k * columns + n] = read_b(b_type, matrix.bits(n, k));
  if (shape.negate_a != 0)
    for (unsigned i = 0; i < 16 * depth; ++i) left[i] = -left[i];
  if (shape.negate_b != 0)
    for (unsigned i = 0; i < depth * columns; ++i) right[i] = -right[i];
}

}  // namespace

void warpgroup_multiply(const Op& op, Warp& warp, std::uint32_t mask) {
  const std::int32_t* args = arguments(op, warp);
  WgmmaShape shape;
  std::memcpy(&shape, args, sizeof shape);
  const std::int32_t* d = args + sizeof shape / sizeof(std::int32_t);
  const std::int32_t* a = d + shape.d_count;
  const auto d_type = static_cast<Type>(shape.d_type);
  const auto columns = static_cast<unsigned>(shape.n), depth = static_cast<unsigned>(shape.k);
  const unsigned elements = columns / 2;
  const std::uint32_t accumulate = warp.predicate(op.c) ^ ((op.flags & 1) != 0 ? kFull : 0);
  const bool keep = (accumulate & mask) != 0;
  if (d_type == Type::kS32) {
    std::vector<std::int32_t> left(16 * depth), right(std::size_t{depth} * columns);
    std::vector<std::int64_t> sums(std::size_t{16} * columns);
    read_operands(warp, op, shape, a, left.data(), right.data(), integer_of, integer_of);
    if (keep)
      accumulators(elements, [&](unsigned lane, unsigned i, At at) {
        sums[at.row * columns + at.column] = warp.source<std::int32_t>(d[i])[lane];
      });
    multiply_integers(left.data(), right.data(), sums.data(), 16, columns, depth);
    return write_integers(warp, d, shape.saturate != 0, elements, columns, sums.data(), mask);
  }
  std::vector<float> left(16 * depth), right(std::size_t{depth} * columns),
      sums(std::size_t{16} * columns);
  read_operands(warp, op, shape, a, left.data(), right.data(), float_of, float_of);
  if (keep) read_floats(warp, d, d_type, elements, columns, sums.data());
  multiply_floats(left.data(), right.data(), sums.data(), 16, columns, depth);
  write_floats(warp, d, d_type, elements, columns, sums.data(), mask);
}

}  // namespace gpk::sim
