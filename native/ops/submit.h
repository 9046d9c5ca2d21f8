// The last step of every op on a GPU.
#pragma once

#include <initializer_list>
#include <span>

#include "core/array.h"
#include "core/launch.h"

namespace gpk::ops {

// Launches on the current stream of the arrays' device. `arrays` are all arrays the kernel touches
// (at least one; nullptr entries are skipped): their memory is not reused until the work is done,
// and is kept alive by a graph being captured. `params` as in launch().
void submit(const Kernel& kernel, const LaunchConfig& config, std::span<const Array* const> arrays,
            void** params);

inline void submit(const Kernel& kernel, const LaunchConfig& config,
                   std::initializer_list<const Array*> arrays, void** params) {
  submit(kernel, config, std::span<const Array* const>(arrays.begin(), arrays.size()), params);
}

// Same around any work submitted to stream() during its lifetime. `name` says why the work cannot
// be part of a chain.
class Submission {
 public:
  // On the current stream of the arrays' device, or on a given one, which must outlive this.
  Submission(const char* name, std::span<const Array* const> arrays);
  Submission(const char* name, std::span<const Array* const> arrays,
             const std::shared_ptr<Stream>& stream);
  ~Submission();
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;
  [[nodiscard]] const std::shared_ptr<Stream>& stream() const noexcept { return stream_; }

 private:
  std::span<const Array* const> arrays_;
  const std::shared_ptr<Stream>& stream_;
};

// Multiprocessors that a kernel of the current stream may use: blocks of a cooperative grid with a
// multiprocessor each.
int stream_sms(Device device);

// A grid of ceil(items / per_block) blocks of `threads` threads.
LaunchConfig grid_1d(std::int64_t items, std::int64_t per_block, unsigned threads);

// For kernels that begin with start_dependent(): a grid of few waves is launched programmatically,
// so that it is set up while its predecessor in the stream ends (SM90+).
LaunchConfig dependent(LaunchConfig config, const DeviceTraits& traits);

}  // namespace gpk::ops
