#include "ops/sorting/row_sort.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/ceil_div.h"
#include "base/round_up.h"
#include "base/text.h"
#include "core/context.h"
#include "core/promote.h"
#include "core/view.h"
#include "ops/device_address.h"
#include "ops/elementwise/fill.h"
#include "ops/sorting/complex_sort.h"
#include "ops/sorting/kernels.h"

namespace gpk::ops::sorting {
namespace {

constexpr std::int64_t kMaxInBlock = 8192;  // longest row sorted by one block
constexpr std::int64_t kMaxAlone = 4096;    // same when it is the only row
constexpr std::int64_t kMaxTiles = 61440;   // per launch: look-back counts stay below 2**30
constexpr std::int64_t kWideFrom = std::int64_t{1} << 32;

bool is_wide(const std::optional<Array>& array) { return array && array->dtype() == DType::kInt64; }

void sort_in_blocks(const RowSort& sort, const RowSortPlan& plan) {
  const bool indexed = sort.positions_out.has_value();
  const int width = width_bits(sort.keys.dtype());
  const Kernel& kernel = sorting_kernel(sort.keys.device(), SortingKernel::kBlockSort,
                                        {width, indexed ? 1 : 0, false});
  kernels::BlockSortArgs args{};
  args.keys_in = address(sort.keys);
  args.keys_out = address(sort.keys_out);
  args.vals_in = address(sort.positions);
  args.vals_out = address(sort.positions_out);
  args.rows = sort.rows;
  args.len = sort.len;
  args.segment_bits = static_cast<std::uint32_t>(plan.segment_bits);
  args.widen = is_wide(sort.positions_out) ? 1 : 0;
  args.order = key_order(sort.keys.dtype(), sort.descending);
  LaunchConfig config = grid_1d(sort.rows, plan.rows_per_block, plan.threads);
  config.shared_bytes = std::size_t{plan.threads} * kernels::BlockSortArgs::kItems *
                        ((std::size_t{1} << width) + (indexed ? 4 : 0));
  void* params[] = {&args};
  submit(kernel, config,
         {&sort.keys, sort.keys_out ? &*sort.keys_out : nullptr,
          sort.positions ? &*sort.positions : nullptr,
          sort.positions_out ? &*sort.positions_out : nullptr},
         params);
}

// Scratch memory: one zeroed and one uninitialised allocation, each suballocated.
struct Workspace {
  std::size_t counters = 256;  // after the bitmask of active passes
  std::size_t done = 0;
  std::size_t counts = 0;
  std::size_t lookback[2] = {0, 0};
  std::size_t carry = 0;
  std::size_t zero_bytes = 0;
  std::size_t bytes = 0;
};

constexpr std::size_t kAlignBytes = 256;

Workspace lay_out(const RowSortPlan& plan) {
  const auto rows = static_cast<std::size_t>(plan.rows_per_group);
  const auto passes = static_cast<std::size_t>(plan.num_passes);
  const auto portions = static_cast<std::size_t>(plan.num_portions);
  const std::size_t lookback = rows * static_cast<std::size_t>(plan.tiles_per_row) * 1024;
  Workspace work;
  work.done = work.counters + round_up(passes * portions * 4, kAlignBytes);
  work.counts = work.done + round_up(rows * 4, kAlignBytes);
  work.lookback[0] = work.counts + rows * passes * 256 * 8;
  work.zero_bytes = work.lookback[0] + lookback;
  work.lookback[1] = work.zero_bytes;
  work.carry = work.lookback[1] + (passes * portions > 1 ? lookback : 0);
  work.bytes = work.carry + (portions > 1 ? 2 * 256 * 8 : 0);
  return work;
}

// Copies of the digit histogram in shared memory: more copies reduce bank conflicts, but every
// block has to zero and sum them.
std::uint32_t histogram_copy_bits(std::size_t bytes, std::int64_t piece, std::size_t limit) {
  std::uint32_t bits = 0;
  while (bits < 5 && piece >> (12 + bits) > 1 && (bytes << (bits + 1)) + 1024 <= limit) ++bits;
  return bits;
}

// A radix sort: its buffers, and the launches for one group of rows.
class RadixSort {
 public:
  RadixSort(const RowSort& sort, const RowSortPlan& plan, const char* op)
      : sort_(sort), plan_(plan), work_(lay_out(plan)), keys_out_(sort.keys_out) {
    const Device device = sort.keys.device();
    const Dims group{plan.rows_per_group * sort.len};
    workspace_ = Array::empty({static_cast<std::int64_t>(work_.bytes)}, DType::kUInt8, device, op);
    if (plan.num_passes > 1) {
      keys_tmp_ = Array::empty(group, sort.keys.dtype(), device, op);
      if (!keys_out_) spare_out_ = Array::empty(group, sort.keys.dtype(), device, op);
    }
    if (!sort.positions_out) return;
    const DType dtype = plan.values == 1 ? DType::kUInt32 : DType::kInt64;
    for (int i = 0; i < 2 && i + 1 < plan.num_passes; ++i)
      vals_tmp_[i] = Array::empty(group, dtype, device, op);
  }

  void run(std::int64_t first_row, std::int64_t rows, const char* op) {
    const auto zero_bytes = static_cast<std::int64_t>(work_.zero_bytes);
    fill(slice_axis(*workspace_, 0, 0, zero_bytes, 1), Scalar(std::int64_t{0}), op);
    count_digits(first_row, rows);
    for (int pass = 0; pass < plan_.num_passes; ++pass)
      for (std::int64_t portion = 0; portion < plan_.num_portions; ++portion)
        move_keys(first_row, rows, pass, portion);
  }

 private:
  [[nodiscard]] DeviceAddress work(std::size_t offset) const {
    return address(*workspace_) + static_cast<std::ptrdiff_t>(offset);
  }

  [[nodiscard]] std::int64_t tiles_in(std::int64_t portion) const {
    const std::int64_t keys = std::min(plan_.portion, sort_.len - portion * plan_.portion);
    return ceil_div(keys, plan_.tile);
  }

  void count_digits(std::int64_t first_row, std::int64_t rows) {
    const Kernel& kernel = sorting_kernel(sort_.keys.device(), SortingKernel::kRadixHistogram,
                                          {width_bits(sort_.keys.dtype()), 0, false});
    const DeviceTraits& traits = kernel.context().traits();
    const std::int64_t resident = std::int64_t{traits.multiprocessor_count} * 2;
    const std::int64_t per_row = std::clamp<std::int64_t>(
        sort_.len / (std::int64_t{kRadixHistogramThreads} * 16), 1, ceil_div(resident, rows));
    kernels::RadixHistogramArgs args{};
    args.keys = address(sort_.keys, first_row * sort_.len);
    args.counts = work(work_.counts);
    args.done = work(work_.done);
    args.active = work(0);
    args.len = sort_.len;
    args.piece = ceil_div(sort_.len, per_row);
    args.blocks_per_row = static_cast<std::uint32_t>(per_row);
    const std::size_t bytes = static_cast<std::size_t>(plan_.num_passes) * 256 * 4;
    args.copy_bits = histogram_copy_bits(bytes, args.piece, traits.shared_per_block_optin_bytes);
    args.order = key_order(sort_.keys.dtype(), sort_.descending);
    LaunchConfig config = grid_1d(rows * per_row, 1, kRadixHistogramThreads);
    config.shared_bytes = bytes << args.copy_bits;
    void* params[] = {&args};
    submit(kernel, config, {&sort_.keys, &*workspace_}, params);
  }

  void set_buffers(kernels::PassArgs& args, std::int64_t first_elem) const {
    args.keys_in = address(sort_.keys, first_elem);
    args.keys_out = keys_out_ ? address(keys_out_, first_elem) : address(spare_out_);
    args.keys_tmp = address(keys_tmp_);
    args.vals_in = address(sort_.positions, first_elem);
    args.vals_out = address(sort_.positions_out, first_elem);
    args.vals_tmp0 = address(vals_tmp_[0]);
    args.vals_tmp1 = address(vals_tmp_[1]);
  }

  void set_step(kernels::PassArgs& args, std::int64_t rows, int pass, std::int64_t portion) const {
    const std::int64_t step = pass * plan_.num_portions + portion;
    const bool last_step = step + 1 == plan_.num_passes * plan_.num_portions;
    const std::int64_t next = (portion + 1) % plan_.num_portions;
    args.starts = work(work_.counts) + std::ptrdiff_t{pass} * 256 * 8;
    args.starts_stride = static_cast<std::uint32_t>(plan_.num_passes * 256);
    if (portion > 0) args.starts = work(work_.carry) + (portion % 2 == 1 ? 0 : 256 * 8);
    if (next > 0) args.carry_out = work(work_.carry) + (next % 2 == 1 ? 0 : 256 * 8);
    args.lookback = work(work_.lookback[step % 2]);
    args.lookback_next = work(work_.lookback[(step + 1) % 2]);
    args.counter = work(work_.counters) + step * 4;
    args.active = work(0);
    args.len = sort_.len;
    args.first = portion * plan_.portion;
    args.end = std::min<std::int64_t>(args.first + plan_.portion, sort_.len);
    args.tiles_per_row = static_cast<std::uint32_t>(tiles_in(portion));
    args.num_tiles = static_cast<std::uint32_t>(rows * tiles_in(portion));
    args.num_tiles_next = last_step ? 0 : static_cast<std::uint32_t>(rows * tiles_in(next));
    args.pass = static_cast<std::uint32_t>(pass);
  }

  void move_keys(std::int64_t first_row, std::int64_t rows, int pass, std::int64_t portion) {
    const int width = width_bits(sort_.keys.dtype());
    kernels::PassArgs args{};
    set_buffers(args, first_row * sort_.len);
    set_step(args, rows, pass, portion);
    args.order = key_order(sort_.keys.dtype(), sort_.descending);
    args.flags = (plan_.values == 1 && is_wide(sort_.positions_out) ? kernels::kWidenValues : 0u) |
                 (sort_.keys_out ? 0u : kernels::kDropKeys);
    const bool merge_zeros = plan_.values == 0 && args.order.kind == kernels::KeyKind::kFloat;
    const Kernel& kernel = sorting_kernel(sort_.keys.device(), SortingKernel::kOnesweep,
                                          {width, plan_.values, merge_zeros});
    LaunchConfig config = grid_1d(
        args.num_tiles, 1, static_cast<unsigned>(onesweep_shape(width, plan_.values).threads));
    const std::size_t value_bytes = plan_.values == 0 ? 0 : plan_.values == 1 ? 4 : 8;
    config.shared_bytes =
        static_cast<std::size_t>(plan_.tile) * ((std::size_t{1} << width) + value_bytes);
    void* params[] = {&args};
    const auto given = [](const std::optional<Array>& array) { return array ? &*array : nullptr; };
    submit(kernel, config,
           {&sort_.keys, &*workspace_, given(keys_out_), given(spare_out_), given(keys_tmp_),
            given(sort_.positions), given(sort_.positions_out), given(vals_tmp_[0]),
            given(vals_tmp_[1])},
           params);
  }

  const RowSort& sort_;
  const RowSortPlan& plan_;
  Workspace work_;
  std::optional<Array> keys_out_;
  std::optional<Array> workspace_, keys_tmp_, spare_out_, vals_tmp_[2];
};

}  // namespace

kernels::KeyOrder key_order(DType dtype, bool descending) {
  using kernels::KeyKind;
  kernels::KeyOrder order;
  order.descending = descending ? 1 : 0;
  switch (info(dtype).kind) {
    case DTypeClass::kSigned: order.kind = KeyKind::kSigned; return order;
    case DTypeClass::kFloat: order.kind = KeyKind::kFloat; break;
    case DTypeClass::kComplex: order.kind = KeyKind::kComplex; break;
    default: return order;
  }
  switch (real_part_of(dtype)) {
    case DType::kFloat16: order.inf = 0x7c00; break;
    case DType::kBFloat16: order.inf = 0x7f80; break;
    case DType::kFloat32: order.inf = 0x7f800000; break;
    default: order.inf = 0x7ff0000000000000; break;
  }
  order.nan = order.inf | (order.inf & (~order.inf + 1)) >> 1;  // the highest mantissa bit
  return order;
}

int width_bits(DType dtype) { return std::bit_width(itemsize(dtype)) - 1; }

DType position_dtype(std::int64_t len) { return len < kWideFrom ? DType::kUInt32 : DType::kInt64; }

RowSortPlan plan_row_sort(int width_bits, bool with_positions, std::int64_t rows,
                          std::int64_t len) {
  RowSortPlan plan;
  plan.in_block = len <= (rows == 1 ? kMaxAlone : kMaxInBlock);
  if (plan.in_block) {
    plan.segment_bits =
        std::max(3, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(len - 1))));
    const std::int64_t segment = std::int64_t{1} << plan.segment_bits;
    plan.threads = static_cast<unsigned>(
        std::max<std::int64_t>(256, segment / kernels::BlockSortArgs::kItems));
    plan.rows_per_block = std::int64_t{plan.threads} * kernels::BlockSortArgs::kItems / segment;
    return plan;
  }
  plan.values = !with_positions ? 0 : len < kWideFrom ? 1 : 2;
  plan.tile = onesweep_shape(width_bits, plan.values).tile();
  plan.num_passes = 1 << width_bits;
  const std::int64_t tiles = ceil_div(len, plan.tile);
  plan.num_portions = ceil_div(tiles, kMaxTiles);
  plan.tiles_per_row = std::min(tiles, kMaxTiles);
  plan.portion = plan.tiles_per_row * plan.tile;
  plan.rows_per_group = std::min(rows, std::max<std::int64_t>(1, kMaxTiles / tiles));
  return plan;
}

std::string to_string(const RowSortPlan& plan) {
  if (plan.in_block)
    return cat("row_sort(in_block, segment=", 1 << plan.segment_bits, ", threads=", plan.threads,
               ", rows_per_block=", plan.rows_per_block, ")");
  return cat("row_sort(passes=", plan.num_passes, ", values=", plan.values, ", tile=", plan.tile,
             ", rows_per_group=", plan.rows_per_group, ", portions=", plan.num_portions, " x ",
             plan.tiles_per_row, " tiles)");
}

void sort_rows(const RowSort& sort, const char* op) {
  if (sort.rows == 0 || sort.len == 0) return;
  if (is_complex(sort.keys.dtype())) return sort_complex_rows(sort, op);
  const bool indexed = sort.positions_out.has_value();
  const RowSortPlan plan =
      plan_row_sort(width_bits(sort.keys.dtype()), indexed, sort.rows, sort.len);
  if (plan.in_block) return sort_in_blocks(sort, plan);
  RadixSort radix(sort, plan, op);
  for (std::int64_t row = 0; row < sort.rows; row += plan.rows_per_group)
    radix.run(row, std::min(plan.rows_per_group, sort.rows - row), op);
}

}  // namespace gpk::ops::sorting
