// Runs a weight plan: files to arrays on a device.
//
// On a GPU several threads read windows of the files into pinned buffers; the transfer engine
// copies them, and where the dtype differs they are converted on the device, window by window.
// Reads, copies, conversions and the allocation of the next block overlap. Host memory: the pinned
// buffers (weight_staging.h). On CPU simulation the calling thread reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "core/array.h"
#include "llm/weight_plan.h"
#include "ops/quantize/packed_weight.h"

namespace gpk::llm {

struct LoadOptions {
  std::optional<DType> dtype;  // see weight_dtype(); nothing: as stored
  // The blocks may be evicted to host memory under pressure, as soon as they are loaded: weights
  // larger than the pool's limit load, and come back when they are used.
  bool evictable = false;
  std::size_t block_bytes = 0;  // 0: 512 MiB, evictable 64 MiB
  unsigned num_threads = 0;     // that read; 0: by the machine
  // Models only: the linear layers are quantised on the way in, one weight after the other.
  std::optional<ops::PackedLayout> quantization = {};
  // Bytes read so far and in all; on the calling thread. An exception ends the load.
  std::function<void(std::uint64_t, std::uint64_t)> progress;
};

// The tensors by name: C order, read-only and frozen views of the blocks. Complete when it returns.
// Throws InvalidArgument for dtypes that cannot be loaded (nothing was allocated then),
// OutOfMemory, FileError.
std::map<std::string, Array> load_weights(std::span<const WeightSource> sources, Device device,
                                          const LoadOptions& options);

}  // namespace gpk::llm
