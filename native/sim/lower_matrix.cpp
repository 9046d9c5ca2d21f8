// ldmatrix, stmatrix, mma.sync and wgmma.
#include <cstdio>
#include <cstring>

#include "sim/control.h"
#include "sim/lower.h"
#include "sim/machine.h"
#include "sim/matrix.h"
#include "sim/races.h"

namespace gpk::sim {
namespace {

template <class Shape>
std::vector<std::int32_t> words_of(const Shape& shape) {
  std::vector<std::int32_t> words(sizeof(Shape) / sizeof(std::int32_t));
  std::memcpy(words.data(), &shape, sizeof shape);
  return words;
}

bool parse_shape(std::string_view text, int& m, int& n, int& k) {
  return std::sscanf(std::string(text).c_str(), "m%dn%dk%d", &m, &n, &k) == 3;
}

}  // namespace

void Lowering::lower_matrix(bool load) {
  if (!take("sync") || !take("aligned") || !take("m8n8")) unsupported();
  const unsigned count = take("x1") ? 1 : take("x2") ? 2 : take("x4") ? 4 : 0;
  const bool transposed = take("trans");
  take_space(Space::kShared);
  if (count == 0 || !take("b16")) unsupported();
  no_more_modifiers();
  expect_operands(2, 2);
  const Operand& registers = operand(load ? 0 : 1);
  if (registers.kind != Kind::kVector || registers.elements.size() != count)
    fail("expected a vector of " + std::to_string(count));
  std::vector<std::int32_t> cells;
  for (const Operand& one : registers.elements)
    cells.push_back(load ? destination(one, Type::kB32) : source(one, Type::kB32));
  Op fields;
  address(fields, operand(load ? 1 : 0));
  cells.push_back(static_cast<std::int32_t>(fields.imm));
  skip_unless_guard();
  Op& op = emit_sync(load ? load_matrices : store_matrices, pool_.constant(kFull, 4), cells);
  op.a = fields.a;
  op.flags = fields.flags;
  op.count = static_cast<std::uint8_t>(count);
  op.mode = transposed ? 1 : 0;
  end_skip();
}

// Of mma.sp: a holds two of four elements of float16 or bfloat16 along k, e says which. f selects
// the lanes of a quad that have them.
void Lowering::check_sparse_mma(MmaShape& shape) {
  const auto a = static_cast<Type>(shape.a_type), b = static_cast<Type>(shape.b_type);
  const bool half =
      a == Type::kF16 || (a == Type::kBf16 && shape.d_type == static_cast<int>(Type::kF32));
  if (!half || a != b || shape.m != 16 || (shape.k != 16 && shape.k != 32)) unsupported();
  const std::uint64_t selector = immediate(operand(5));
  if (selector >= (shape.k == 16 ? 4u : 2u))
    fail("sparsity selector " + std::to_string(selector) + " of k" + std::to_string(shape.k));
  shape.selector = static_cast<std::int32_t>(selector);
  shape.a_count = shape.b_count;  // 16 rows of k / 2
}

// Those of a and b as s8 or u8; kNone: they have more bits.
std::pair<Type, Type> Lowering::take_four_bit_types() {
  std::vector<Type> found;
  for (std::size_t i = 0; i < modifiers_.size(); ++i) {
    if (taken_[i] || (modifiers_[i] != "s4" && modifiers_[i] != "u4")) continue;
    taken_[i] = true;
    found.push_back(modifiers_[i] == "s4" ? Type::kS8 : Type::kU8);
  }
  if (found.empty()) return {Type::kNone, Type::kNone};
  if (found.size() != 2) unsupported();
  return {found[0], found[1]};
}

// Of mma with block scales: float32 sums of e4m3 and e5m2, or of e2m1.
ScaledMmaShape Lowering::take_scaled_shape() {
  ScaledMmaShape shape{};
  const bool bytes = take("kind::mxf8f6f4");
  const bool wide_scales = !bytes && take("kind::mxf4nvf4");  // also four, as ue4m3
  if (!bytes && !wide_scales && !take("kind::mxf4")) unsupported();
  shape.bits = bytes ? 8 : 4;
  shape.num_scales = bytes && take("scale_vec::1X")         ? 1
                     : !bytes && take("scale_vec::2X")      ? 2
                     : wide_scales && take("scale_vec::4X") ? 4
                                                            : 0;
  shape.scale_format = shape.num_scales == 4 ? kScaleUe4m3 : kScaleUe8m0;
  const bool ok = shape.num_scales != 0 && take(shape.num_scales == 4 ? "ue4m3" : "ue8m0") &&
                  take(bytes ? "m16n8k32" : "m16n8k64") && take("row") && take("col") &&
                  take("f32") && take("f32");
  if (!ok) unsupported();
  std::vector<MmaElement> elements;
  for (std::size_t i = 0; i < modifiers_.size(); ++i) {
    const std::string_view name = modifiers_[i];
    const MmaElement element = bytes && name == "e4m3"    ? kElementE4m3
                               : bytes && name == "e5m2"  ? kElementE5m2
                               : !bytes && name == "e2m1" ? kElementE2m1
                                                          : kNoElement;
    if (taken_[i] || element == kNoElement) continue;
    taken_[i] = true;
    elements.push_back(element);
  }
  if (elements.size() != 2) unsupported();
  shape.a = elements[0];
  shape.b = elements[1];
  return shape;
}

// {byte, thread} of scales.
ScaleSelector Lowering::scale_selector(const Operand& pair, std::int32_t num_scales,
                                       unsigned threads) const {
  if (pair.kind != Kind::kVector || pair.elements.size() != 2) fail("expected a byte and a thread");
  const std::uint64_t byte = immediate(pair.elements[0]), thread = immediate(pair.elements[1]);
  if (byte > 3 || byte % static_cast<unsigned>(num_scales) != 0 || thread >= threads)
    fail("scale selector {" + std::to_string(byte) + ", " + std::to_string(thread) + "}");
  return {static_cast<std::int32_t>(byte), static_cast<std::int32_t>(thread)};
}

void Lowering::lower_scaled_mma() {
  ScaledMmaShape shape = take_scaled_shape();
  no_more_modifiers();
  expect_operands(8, 8);
  shape.select_a = scale_selector(operand(5), shape.num_scales, 2);
  shape.select_b = scale_selector(operand(7), shape.num_scales, 4);
  std::vector<std::int32_t> values = words_of(shape);
  const auto add = [&](const Operand& list, std::size_t count, bool writes) {
    if (list.kind != Kind::kVector || list.elements.size() != count)
      fail("expected " + std::to_string(count) + " registers");
    for (const Operand& one : list.elements)
      values.push_back(writes ? destination(one, Type::kB32) : source(one, Type::kB32));
  };
  add(operand(0), 4, true);
  add(operand(1), 4, false);
  add(operand(2), 2, false);
  add(operand(3), 4, false);
  for (const std::size_t at : {std::size_t{4}, std::size_t{6}}) {
    const Operand& scales = operand(at);
    const bool braced = scales.kind == Kind::kVector && scales.elements.size() == 1;
    values.push_back(source(braced ? scales.elements[0] : scales, Type::kB32));
  }
  skip_unless_guard();
  emit_sync(multiply_scaled, pool_.constant(kFull, 4), values);
  end_skip();
}

void Lowering::lower_mma() {
  if (!take("sync") || !take("aligned")) unsupported();
  if (take("block_scale")) return lower_scaled_mma();
  MmaShape shape{};
  shape.sparse = take("sp::ordered_metadata") ? kSparseOrdered : take("sp") ? kSparse : kDense;
  const bool sparse = shape.sparse != kDense;
  int m = 0, n = 0, k = 0;
  for (std::size_t i = 0; i < modifiers_.size(); ++i)
    if (!taken_[i] && parse_shape(modifiers_[i], m, n, k)) taken_[i] = true;
  if (!take("row") || !take("col")) unsupported();
  shape.saturate = take("satfinite") ? 1 : 0;
  const auto [four_a, four_b] = take_four_bit_types();
  const bool four = four_a != Type::kNone;
  const Type d = take_type(), a = four ? four_a : take_type(), b = four ? four_b : take_type(),
             c = take_type();
  no_more_modifiers();
  expect_operands(sparse ? 6 : 4, sparse ? 6 : 4);
  const unsigned bytes = bytes_of(a);
  const int bits = four ? 4 : static_cast<int>(bytes) * 8;
  const bool narrow = a == Type::kF16 || a == Type::kBf16 || a == Type::kTf32 || a == Type::kE4m3 ||
                      a == Type::kE5m2;
  const bool ok = (d == Type::kF64 && a == Type::kF64) ||
                  (d == Type::kS32 && bytes == 1 && is_integer(a) && is_integer(b)) ||
                  ((d == Type::kF32 || d == Type::kF16) && narrow && (is_float(b)));
  if (!ok || d != c || bytes != bytes_of(b) || n != 8 || (m != 16 && !(m == 8 && !(narrow))))
    unsupported();
  if (bytes == 8) {
    if (!(m == 8 ? k == 4 : k == 4 || k == 8 || k == 16)) unsupported();
  } else {
    const int unit = 128 / bits;  // elements of a register of the four lanes of a row
    if (k != unit && k != 2 * unit && !sparse) unsupported();
    if (m == 8 && k != unit) unsupported();
  }
  shape.m = m;
  shape.n = n;
  shape.k = k;
  shape.d_type = static_cast<int>(d);
  shape.a_type = static_cast<int>(a);
  shape.b_type = static_cast<int>(b);
  shape.bits = bits;
  const int registers = bytes == 8 ? k / 4 : k * bits / 128;
  shape.a_count = registers * m / 8;
  shape.b_count = registers;
  const int elements = m * 8 / 32;
  shape.d_count = d == Type::kF16 ? elements / 2 : elements;
  if (sparse) check_sparse_mma(shape);
  const Type data = bytes == 8 ? Type::kB64 : Type::kB32;
  std::vector<std::int32_t> values = words_of(shape);
  const auto add = [&](const Operand& list, int count, Type type, bool writes) {
    const bool scalar = list.kind != Kind::kVector;
    if ((scalar ? 1 : list.elements.size()) != static_cast<std::size_t>(count))
      fail("expected " + std::to_string(count) + " registers");
    for (int i = 0; i < count; ++i) {
      const Operand& one = scalar ? list : list.elements[static_cast<std::size_t>(i)];
      values.push_back(writes ? destination(one, type) : source(one, type));
    }
  };
  add(operand(0), shape.d_count, data, true);
  add(operand(1), shape.a_count, data, false);
  add(operand(2), shape.b_count, data, false);
  add(operand(3), shape.d_count, data, false);
  if (sparse) add(operand(4), 1, Type::kB32, false);
  skip_unless_guard();
  emit_sync(multiply_accumulate, pool_.constant(kFull, 4), values);
  end_skip();
}

void Lowering::lower_wgmma() {
  const bool commits = take("commit_group");
  const bool waits = !commits && take("wait_group");
  if (commits || waits || take("fence")) {
    take("sync");
    take("aligned");
    if (commits) return lower_commit(AsyncGroup::kWgmma);
    if (waits) return lower_wait(AsyncGroup::kWgmma);
    no_more_modifiers();
    emit(nothing);
    return;
  }
  if (!take("mma_async") || !take("sync") || !take("aligned")) unsupported();
  WgmmaShape shape{};
  int m = 0, n = 0, k = 0;
  for (std::size_t i = 0; i < modifiers_.size(); ++i)
    if (!taken_[i] && parse_shape(modifiers_[i], m, n, k)) taken_[i] = true;
  shape.saturate = take("satfinite") ? 1 : 0;
  const Type d = take_type(), a = take_type(), b = take_type();
  no_more_modifiers();
  const unsigned bytes = bytes_of(a);
  const bool integers = d == Type::kS32;
  const bool narrow = a == Type::kF16 || a == Type::kBf16 || a == Type::kTf32 || a == Type::kE4m3 ||
                      a == Type::kE5m2;
  if (m != 64 || n < 8 || n > 256 || n % 8 != 0 || bytes == 0 ||
      k != static_cast<int>(32 / bytes) || bytes_of(b) != bytes)
    unsupported();
  if (integers ? (bytes != 1 || is_float(a) || is_float(b))
               : !(narrow && is_float(b) && (d == Type::kF32 || d == Type::kF16)))
    unsupported();
  const bool transposable = bytes == 2;
  const std::size_t count = 4 + (integers ? 0 : 2);
  expect_operands(count, count + 2);
  shape.n = n;
  shape.k = k;
  shape.d_type = static_cast<int>(d);
  shape.a_type = static_cast<int>(a);
  shape.b_type = static_cast<int>(b);
  shape.d_count = d == Type::kF16 ? n / 4 : n / 2;
  const bool from_registers = operand(1).kind == Kind::kVector;
  shape.a_count = from_registers ? 4 : 0;
  std::size_t at = 4;
  if (!integers) {
    shape.negate_a = static_cast<std::int64_t>(immediate(operand(at++))) < 0 ? 1 : 0;
    shape.negate_b = static_cast<std::int64_t>(immediate(operand(at++))) < 0 ? 1 : 0;
  }
  if (transposable) {
    if (!from_registers) shape.transpose_a = immediate(operand(at++)) != 0 ? 1 : 0;
    shape.transpose_b = immediate(operand(at++)) != 0 ? 1 : 0;
  }
  if (at != operands())
    fail("has " + std::to_string(operands()) + " operands, expected " + std::to_string(at));
  std::vector<std::int32_t> values = words_of(shape);
  if (operand(0).kind != Kind::kVector ||
      operand(0).elements.size() != static_cast<std::size_t>(shape.d_count))
    fail("expected " + std::to_string(shape.d_count) + " registers of d");
  for (const Operand& one : operand(0).elements) values.push_back(destination(one, Type::kB32));
  if (from_registers) {
    if (operand(1).elements.size() != 4) fail("expected 4 registers of a");
    for (const Operand& one : operand(1).elements) values.push_back(source(one, Type::kB32));
  } else {
    values.push_back(source(1, Type::kB64));
  }
  const Cell descriptor = source(2, Type::kB64);
  bool negated = false;
  const Cell scale = predicate_source(operand(3), negated);
  skip_unless_guard();
  Op& op = emit_sync(warpgroup_multiply, pool_.constant(kFull, 4), values);
  op.b = descriptor;
  op.c = scale;
  op.flags = negated ? 1 : 0;
  end_skip();
}

}  // namespace gpk::sim
