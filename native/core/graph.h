// CUDA graphs: work captured from a stream once and replayed with one driver call. The CPU backend
// stores the captured calls and runs them again.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/device.h"
#include "core/driver_api.h"
#include "core/launch.h"

namespace gpk::inline core {

class Buffer;
class CaptureMemory;
class Graph;
class GreenContext;
class Kernel;
class Stream;

// A thread's capture target. A graph destroyed on another thread clears its thread's slot.
struct CaptureSlot {
  std::atomic<Graph*> graph{nullptr};
};

// One kernel launch inside a graph, in capture order.
struct GraphLaunch {
  LaunchConfig config;
  std::shared_ptr<const Kernel> kernel;  // null on the CPU
  cu::GraphNode node = nullptr;          // nullptr: unknown (drivers before 12.3)
  std::shared_ptr<void> host_kernel;     // on the CPU: the argument of record_host_launch
  std::size_t host_call = 0;
};

class Graph {
 public:
  explicit Graph(Device device);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // From here on the calling thread's work on this device is recorded instead of run, on the
  // graph's own stream, which becomes current; memory comes from a private pool that lives as long
  // as the graph. A previous capture is dropped. Throws CaptureError if this thread is already
  // capturing.
  void begin_capture();
  // Instantiates what was recorded. Throws CaptureError when this thread is not capturing into this
  // graph, when nothing was recorded, or when an op broke the capture.
  void end_capture();
  // Ends a failed capture; the graph is empty afterwards. No-op unless the calling thread is the
  // one that captures. Never throws.
  void abandon_capture() noexcept;

  // Submits the graph to `stream` (the calling thread's current one by default) and returns.
  void replay(const std::shared_ptr<Stream>& stream = nullptr);
  // Waits for the last replay.
  void synchronize();
  // Drops the captured work and its memory pool.
  void reset();

  [[nodiscard]] bool ready() const noexcept { return ready_; }
  [[nodiscard]] bool capturing() const noexcept { return capturing_; }
  [[nodiscard]] std::size_t num_nodes() const noexcept { return num_nodes_; }
  [[nodiscard]] const std::shared_ptr<Stream>& stream() const noexcept { return stream_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] const std::vector<GraphLaunch>& launches() const noexcept { return launches_; }

  // Replaces all arguments of the launch for later replays. `params` as in launch(). Throws
  // InvalidArgument for a bad index, CudaError where the driver cannot.
  void set_launch_params(std::size_t index, void** params);

  // Called by launch() on the capturing thread, for work on any stream.
  void note_launch(const Kernel& kernel, const LaunchConfig& config, Stream& stream);
  // Keeps a buffer used by captured work resident, and orders its other users after the replays.
  // The graph's private memory outlives its buffers: those may be freed, and are reused within it.
  void keep(const std::shared_ptr<Buffer>& buffer);
  // CPU backend: a call to run at each replay; one that represents the launch of `kernel` (opaque
  // here) appears in launches() and can be replaced.
  void record_host_call(std::function<void()> call);
  void record_host_launch(const LaunchConfig& config, std::shared_ptr<void> kernel,
                          std::function<void()> call);
  void replace_host_launch(std::size_t index, std::function<void()> call);

  [[nodiscard]] CaptureMemory* memory() const noexcept { return memory_.get(); }

  // What ops of the capture on `stream` share; dropped when the capture ends.
  std::shared_ptr<void>& shared_by(const Stream& stream) { return shared_[&stream]; }

 private:
  void capture_where_current();
  void leave_capture();
  void instantiate(cu::Graph graph);
  void destroy() noexcept;
  void mark_replay(const std::shared_ptr<Stream>& stream);
  void close_memory() noexcept;

  Device device_;
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<GreenContext> green_;  // of stream_; null: all multiprocessors
  std::shared_ptr<Stream> previous_stream_;
  std::shared_ptr<CaptureSlot> slot_;  // of the thread that captures into this graph
  std::vector<std::shared_ptr<Stream>> replay_streams_;  // newest last
  std::unique_ptr<CaptureMemory> memory_;                // private
  cu::Graph graph_ = nullptr;
  cu::GraphExec exec_ = nullptr;
  bool ready_ = false;
  bool capturing_ = false;
  std::size_t num_nodes_ = 0;
  std::vector<GraphLaunch> launches_;
  std::unordered_map<const Buffer*, std::shared_ptr<Buffer>> kept_;
  std::unordered_map<const Buffer*, std::weak_ptr<Buffer>> own_;  // of memory_
  std::unordered_map<const Stream*, std::shared_ptr<void>> shared_;
  std::vector<std::function<void()>> host_calls_;
};

// The graph the calling thread is capturing into; nullptr when it is not. One thread-local load.
Graph* capturing_graph() noexcept;

// The private memory of the calling thread's capture; nullptr when it is not capturing on `device`.
CaptureMemory* capture_memory(Device device) noexcept;

// Throws CaptureError "<op>: cannot be captured ..." when the calling thread is capturing.
void forbid_in_capture(const char* op, const char* why);

}  // namespace gpk::inline core
