#include "ops/kv_cache/pages.h"

#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/kv_cache.h"
#include "ops/checks.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/kv_cache/kernels.h"
#include "ops/output.h"
#include "ops/submit.h"
#include "ops/word_type.h"

namespace gpk::ops {
namespace {

using namespace kv_cache;

using Kind = InvalidArgument::Kind;

constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kWordsPerBlock = 1024;
constexpr int kWide = 16;  // bytes of a word where everything is aligned to it, else 1

jit::KernelSpec pages_spec(KvCacheKernel kernel, const char* op, int word) {
  jit::KernelSpec spec;
  spec.file = "kv_cache/pages.cuh";
  spec.op = op;
  spec.kernel = static_cast<std::uint8_t>(kernel);
  spec.variant = static_cast<std::uint64_t>(word);
  spec.expression = word == 0
                        ? cat("gpk::", op)
                        : cat("gpk::", op, "<", word_type(static_cast<std::size_t>(word)), ">");
  return spec;
}

const Kernel& load(KvCacheKernel which, const char* op, int word, const Device& device) {
  return kernel(
      Context::get(device.index),
      {Family::kv_cache, static_cast<std::uint8_t>(which), static_cast<std::uint64_t>(word)},
      [&] { return pages_spec(which, op, word); });
}

// Throws unless the pages of [blocks, page, heads, dim] (or any number of axes) have no gaps.
void check_pages(const Array& cache, const char* argument, int ndim, const char* op) {
  if (cache.ndim() < ndim)
    throw InvalidArgument(cat(op, ": ", argument, " has shape ", to_string(cache.shape()),
                              ", expected (blocks, page, heads, dim)"));
  std::int64_t expected = 1;
  for (int axis = cache.ndim() - 1; axis >= ndim - 2; --axis) {
    if (cache.shape()[axis] > 1 && cache.strides()[axis] != expected)
      throw InvalidArgument(cat(op, ": ", argument, " has gaps or another order in its ",
                                ndim == 4 ? "tokens" : "pages"));
    expected *= cache.shape()[axis];
  }
}

// 16 where pointers, strides and sizes are multiples of it, all in bytes.
class WordSize {
 public:
  WordSize& add(std::int64_t bytes) {
    if (bytes % kWide != 0) wide_ = false;
    return *this;
  }
  WordSize& add(const Array& array) {
    return add(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(array.data()) % kWide));
  }
  [[nodiscard]] int get() const { return wide_ ? kWide : 1; }

 private:
  bool wide_ = true;
};

std::int64_t bytes_of(const Array& array, std::int64_t elems) {
  return elems * static_cast<std::int64_t>(itemsize(array.dtype()));
}

void launch_gather(const Array& cache, const Array& block_tables,
                   const std::optional<Array>& lengths, const Array& out) {
  constexpr const char* kOp = "gather_pages";
  const Array tables = contiguous(block_tables, kOp);
  std::optional<Array> ends = lengths;
  if (ends) ends = contiguous(*ends, kOp);
  const Dims& shape = out.shape();
  const std::int64_t row = bytes_of(cache, shape[2] * shape[3]);
  const std::int64_t block = bytes_of(cache, cache.strides()[0]);
  const std::int64_t slot = bytes_of(cache, cache.strides()[1]);
  const int word = WordSize().add(cache).add(out).add(row).add(block).add(slot).get();
  kernels::PageGatherArgs args{address(cache),
                               address(tables),
                               address(ends),
                               address(out),
                               block / word,
                               slot / word,
                               row / word,
                               shape[0] * shape[1],
                               cache.shape()[0],
                               shape[1],
                               static_cast<int>(tables.shape()[1]),
                               static_cast<int>(cache.shape()[1])};
  void* params[] = {&args};
  submit(load(KvCacheKernel::kGatherPages, kOp, word, cache.device()),
         grid_1d(args.num_tokens * 32, kBlock, kBlock),
         {&cache, &tables, ends ? &*ends : nullptr, &out}, params);
}

void launch_slot_mapping(const Array& block_tables, const Array& positions,
                         const std::optional<Array>& sequences, std::int64_t page,
                         const Array& out) {
  constexpr const char* kOp = "slot_mapping";
  const Array tables = contiguous(block_tables, kOp);
  const Array at = contiguous(positions, kOp);
  std::optional<Array> of = sequences;
  if (of) of = contiguous(*of, kOp);
  kernels::SlotMappingArgs args{address(tables),
                                address(at),
                                address(of),
                                address(out),
                                out.size(),
                                static_cast<int>(tables.shape()[0]),
                                static_cast<int>(tables.shape()[1]),
                                static_cast<int>(page),
                                0};
  void* params[] = {&args};
  submit(load(KvCacheKernel::kSlotMapping, kOp, 0, out.device()),
         grid_1d(out.size(), kBlock, kBlock), {&tables, &at, of ? &*of : nullptr, &out}, params);
}

}  // namespace

Array slot_mapping(const Array& block_tables, const Array& positions,
                   const std::optional<Array>& sequences, std::int64_t page,
                   const std::optional<Array>& out) {
  constexpr const char* kOp = "slot_mapping";
  check_dtype(block_tables, "block_tables", DType::kInt32, kOp);
  check_dtype(positions, "positions", DType::kInt32, kOp);
  if (block_tables.ndim() != 2)
    throw InvalidArgument(cat(kOp, ": block_tables has shape ", to_string(block_tables.shape()),
                              ", expected (sequences, max_blocks)"));
  if (page < 1 || page > std::numeric_limits<int>::max())
    throw InvalidArgument(cat(kOp, ": page is ", page, ", expected 1 or more"));
  check_shape(positions, "positions", {sequences ? positions.size() : block_tables.shape()[0]},
              kOp);
  check_device(positions, "positions", block_tables.device(), "the others", kOp);
  if (sequences) {
    check_dtype(*sequences, "sequences", DType::kInt32, kOp);
    check_shape(*sequences, "sequences", positions.shape(), kOp);
    check_device(*sequences, "sequences", block_tables.device(), "the others", kOp);
  }
  const Device device = positions.device();
  if (out) check_out(*out, positions.shape(), DType::kInt32, device, kOp);
  const Array result = Array::empty(positions.shape(), DType::kInt32, device, kOp);
  if (result.size() > 0) {
    if (device.is_cuda()) {
      launch_slot_mapping(block_tables, positions, sequences, page, result);
    } else {
      run_on_cpu({kOp,
                  {block_tables, positions, cpu_optional(sequences)},
                  {result},
                  {{"page", Scalar(page)}}});
    }
  }
  if (out) copy_into(*out, result, kOp);
  return out ? *out : result;
}

void copy_pages(const Array& k_cache, const std::optional<Array>& v_cache, const Array& pairs) {
  constexpr const char* kOp = "copy_pages";
  check_dtype(pairs, "pairs", DType::kInt32, kOp);
  check_shape(pairs, "pairs", {pairs.ndim() == 0 ? 0 : pairs.shape()[0], 2}, kOp);
  check_pages(k_cache, "k_cache", 3, kOp);
  check_device(pairs, "pairs", k_cache.device(), "the others", kOp);
  check_writable(k_cache, kOp, "k_cache");
  if (v_cache) {
    check_pages(*v_cache, "v_cache", 3, kOp);
    check_shape(*v_cache, "v_cache", k_cache.shape(), kOp);
    check_device(*v_cache, "v_cache", k_cache.device(), "the others", kOp);
    check_writable(*v_cache, kOp, "v_cache");
    if (v_cache->dtype() != k_cache.dtype())
      throw InvalidArgument(Kind::kType, cat(kOp, ": v_cache has dtype ", name(v_cache->dtype()),
                                             ", k_cache ", name(k_cache.dtype())));
  }
  if (pairs.size() == 0 || k_cache.size() == 0) return;
  if (!k_cache.device().is_cuda()) {
    std::vector<Array> outs{k_cache};
    if (v_cache) outs.push_back(*v_cache);
    run_on_cpu({kOp, {pairs}, std::move(outs)});
    return;
  }
  const Array& v = v_cache ? *v_cache : k_cache;
  const std::int64_t page = bytes_of(k_cache, k_cache.size() / k_cache.shape()[0]);
  WordSize size;
  for (const Array* cache : {&k_cache, &v})
    size.add(*cache).add(page).add(bytes_of(*cache, cache->strides()[0]));
  const int word = size.get();
  const Array list = contiguous(pairs, kOp);
  kernels::PageCopyArgs args{};
  args.caches[0] = address(k_cache);
  args.caches[1] = address(v);
  args.pairs = address(list);
  args.block[0] = bytes_of(k_cache, k_cache.strides()[0]) / word;
  args.block[1] = bytes_of(v, v.strides()[0]) / word;
  args.words = page / word;
  args.num_blocks = k_cache.shape()[0];
  args.chunks = static_cast<int>(ceil_div(args.words, kWordsPerBlock));
  LaunchConfig config = grid_1d(list.shape()[0] * args.chunks, 1, kBlock);
  config.grid[1] = v_cache ? 2 : 1;
  void* params[] = {&args};
  submit(load(KvCacheKernel::kCopyPages, kOp, word, k_cache.device()), config,
         {&k_cache, v_cache ? &*v_cache : nullptr, &list}, params);
}

Array gather_pages(const Array& cache, const Array& block_tables, std::int64_t length,
                   const std::optional<Array>& lengths, const std::optional<Array>& out) {
  constexpr const char* kOp = "gather_pages";
  check_pages(cache, "cache", 4, kOp);
  check_shape(cache, "cache",
              {cache.shape()[0], cache.shape()[1], cache.shape()[2], cache.shape()[3]}, kOp);
  check_dtype(block_tables, "block_tables", DType::kInt32, kOp);
  if (block_tables.ndim() != 2)
    throw InvalidArgument(cat(kOp, ": block_tables has shape ", to_string(block_tables.shape()),
                              ", expected (sequences, max_blocks)"));
  if (length < 0) throw InvalidArgument(cat(kOp, ": length is ", length, ", expected 0 or more"));
  check_device(block_tables, "block_tables", cache.device(), "the others", kOp);
  const std::int64_t sequences = block_tables.shape()[0];
  if (lengths) {
    check_dtype(*lengths, "lengths", DType::kInt32, kOp);
    check_shape(*lengths, "lengths", {sequences}, kOp);
    check_device(*lengths, "lengths", cache.device(), "the others", kOp);
  }
  const Dims shape = {sequences, length, cache.shape()[2], cache.shape()[3]};
  if (out) check_out(*out, shape, cache.dtype(), cache.device(), kOp);
  const bool direct =
      out && out->dtype() == cache.dtype() && out->is_contiguous() && !may_overlap(*out, cache);
  const Array result = direct ? *out : Array::empty(shape, cache.dtype(), cache.device(), kOp);
  if (result.size() > 0) {
    if (cache.device().is_cuda()) {
      launch_gather(cache, block_tables, lengths, result);
    } else {
      run_on_cpu({kOp,
                  {cache, block_tables, cpu_optional(lengths)},
                  {result},
                  {{"length", Scalar(length)}}});
    }
    if (out && !direct) copy_into(*out, result, kOp);
  }
  return out ? *out : result;
}

void kv_cache::enumerate_pages(std::vector<jit::KernelSpec>& specs) {
  for (const int word : {1, kWide}) {
    specs.push_back(pages_spec(KvCacheKernel::kCopyPages, "copy_pages", word));
    specs.push_back(pages_spec(KvCacheKernel::kGatherPages, "gather_pages", word));
  }
  specs.push_back(pages_spec(KvCacheKernel::kSlotMapping, "slot_mapping", 0));
}

}  // namespace gpk::ops
