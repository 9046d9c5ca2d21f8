#include "llm/weight_loader.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/graph.h"
#include "core/interrupt.h"
#include "core/stream.h"
#include "device/device_pool.h"
#include "device/pool_buffer.h"
#include "llm/weight_parallel.h"
#include "llm/weight_staging.h"
#include "ops/elementwise/copy.h"

namespace gpk::llm {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{512} << 20;
constexpr std::size_t kEvictableBlockBytes = std::size_t{64} << 20;

Array allocate_block(const WeightBlock& block, Device device, bool evictable) {
  const auto bytes = static_cast<std::int64_t>(block.bytes);
  if (!evictable) return Array::empty({bytes}, DType::kUInt8, device, "load");
  auto buffer = std::make_shared<device::PoolBuffer>(device, device::device_pool(device),
                                                     block.bytes, /*evictable=*/true);
  return {Dims{bytes}, Dims{1}, DType::kUInt8, std::move(buffer), 0};
}

// Reads straight into the block, or through a window that is converted.
void load_on_cpu(const WeightBlock& block, const Array& memory,
                 const std::function<void(std::uint64_t)>& advance) {
  std::optional<Array> window;
  if (block.converts)
    window = Array::empty({static_cast<std::int64_t>(kStagingSlotBytes)}, DType::kUInt8,
                          memory.device(), "load");
  const BufferPin pin(memory.buffer());
  for (std::size_t begin = 0; begin < block.raw_bytes; begin += kStagingSlotBytes) {
    const std::size_t end = std::min(begin + kStagingSlotBytes, block.raw_bytes);
    auto* to = window ? static_cast<std::byte*>(window->data())
                      : static_cast<std::byte*>(memory.data()) + begin;
    for (const WeightRead& read : plan_reads(block, begin, end))
      read.file->read(read.file_offset, to + read.offset, read.bytes);
    if (window) convert_window(block, memory, *window, 0, begin, end);
    advance(end - begin);
    check_interrupt();
  }
}

Array view_of(const PlacedWeight& weight, const Array& memory) {
  const Dims& shape = weight.source.tensor->shape;
  return {shape, contiguous_strides(shape), weight.dtype, memory.buffer(),
          static_cast<std::int64_t>(weight.offset) * 8 / info(weight.dtype).bits};
}

// Empty tensors, which no block has.
Array empty_weight(const WeightSource& source, std::optional<DType> dtype, Device device) {
  const DType stored = loadable_dtype(*source.tensor, source.file->path());
  Array array = Array::empty(source.tensor->shape, weight_dtype(stored, dtype), device, "load");
  array.buffer()->set_frozen();
  return array;
}

class Progress {
 public:
  Progress(const std::vector<WeightBlock>& plan, const LoadOptions& options) : options_(options) {
    for (const WeightBlock& block : plan) total_ += block.raw_bytes;
    report();
  }
  void advance(std::uint64_t bytes) {
    done_ += bytes;
    report();
  }

 private:
  void report() const {
    if (options_.progress) options_.progress(done_, total_);
  }
  const LoadOptions& options_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

void convert_window(const WeightBlock& block, const Array& memory, const Array& staging,
                    std::size_t staging_offset, std::size_t begin, std::size_t end) {
  for (const PlacedWeight& weight : block.weights) {
    const std::size_t weight_end =
        weight.raw_offset + static_cast<std::size_t>(weight.source.tensor->size_bytes);
    const std::size_t from = std::max(begin, weight.raw_offset);
    const std::size_t to = std::min(end, weight_end);
    if (from >= to) continue;
    const std::size_t item = itemsize(weight.stored);
    const auto num_elems = static_cast<std::int64_t>((to - from) / item);
    const auto src_elem = static_cast<std::int64_t>((staging_offset + from - begin) / item);
    const auto dst_elem = static_cast<std::int64_t>(weight.offset / itemsize(weight.dtype) +
                                                    (from - weight.raw_offset) / item);
    const Array src({num_elems}, {1}, weight.stored, staging.buffer(), src_elem);
    const Array dst({num_elems}, {1}, weight.dtype, memory.buffer(), dst_elem);
    ops::copy_into(dst, src, "load");
  }
}

std::map<std::string, Array> load_weights(std::span<const WeightSource> sources, Device device,
                                          const LoadOptions& options) {
  forbid_in_capture("load", "weights are read once, a replay could not read them again");
  std::size_t block_bytes = options.block_bytes;
  if (block_bytes == 0) block_bytes = options.evictable ? kEvictableBlockBytes : kBlockBytes;
  const std::vector<WeightBlock> plan = plan_weights(sources, options.dtype, block_bytes);
  Progress progress(plan, options);
  const auto advance = [&](std::uint64_t bytes) { progress.advance(bytes); };
  std::vector<Array> memories;
  memories.reserve(plan.size());
  if (device.is_cuda()) {
    ParallelLoad load(device, plan, options.num_threads, advance);
    for (const WeightBlock& block : plan) {
      const auto allocate = [&] { return allocate_block(block, device, options.evictable); };
      try {
        memories.push_back(allocate());
      } catch (const OutOfMemory&) {  // what is loaded by now can be evicted
        load.drain();
        memories.push_back(allocate());
      }
      load.add(block, memories.back());
    }
    load.finish();
  } else {
    for (const WeightBlock& block : plan) {
      memories.push_back(allocate_block(block, device, options.evictable));
      load_on_cpu(block, memories.back(), advance);
    }
  }
  std::map<std::string, Array> result;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    memories[i].buffer()->set_frozen();
    for (const PlacedWeight& weight : plan[i].weights)
      result.emplace(weight.source.tensor->name, view_of(weight, memories[i]));
  }
  for (const WeightSource& source : sources)
    if (source.tensor->size_bytes == 0)
      result.emplace(source.tensor->name, empty_weight(source, options.dtype, device));
  return result;
}

}  // namespace gpk::llm
