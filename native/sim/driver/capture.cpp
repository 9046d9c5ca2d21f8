// Submissions: into a stream's queue, or into the graph that it captures.
#include <algorithm>
#include <utility>

#include "sim/driver/machine.h"

namespace gpk::sim::driver {
namespace {

// cuThreadExchangeStreamCaptureMode; new threads start in the global mode (0).
int& thread_mode() {
  thread_local int mode = 0;
  return mode;
}

template <class Function>
void for_each_capture(const Function& function) {
  auto& all = machine().captures;
  std::erase_if(all, [](const std::weak_ptr<Capture>& capture) { return capture.expired(); });
  for (const auto& weak : all)
    if (const auto capture = weak.lock()) function(*capture);
}

int capture_status(const SimStream& stream) {
  return !stream.capture ? kCaptureStatusNone : stream.capture->invalid ? 2 : 1;
}

}  // namespace

Result check_unsafe_call() {
  if (thread_mode() == kCaptureModeRelaxed) return kSuccess;
  Result result = kSuccess;
  for_each_capture([&](Capture& capture) {
    constexpr int kGlobal = 0;
    const bool ours = capture.thread == std::this_thread::get_id();
    if (capture.mode == kCaptureModeRelaxed) return;
    if (!ours && !(capture.mode == kGlobal && thread_mode() == kGlobal)) return;
    capture.invalid = true;
    result = kStreamCaptureUnsupported;
  });
  return result;
}

bool break_captures_of(int device) {
  bool found = false;
  for_each_capture([&](Capture& capture) {
    if (capture.device != device) return;
    capture.invalid = true;
    found = true;
  });
  return found;
}

Ticket enqueue(SimStream& stream, std::function<void()> work, std::vector<Ticket> after) {
  const SimContext& context = *context_of(stream.device);
  if (stream.handle == nullptr) {
    for (auto& [handle, other] : machine().streams)
      if (other->device == stream.device && (other->flags & kStreamNonBlocking) == 0)
        after.push_back(other->queue->tail());
  } else if ((stream.flags & kStreamNonBlocking) == 0) {
    after.push_back(context.legacy.queue->tail());
  }
  stream.queue->submit(std::move(work), std::move(after));
  return stream.queue->tail();
}

Result submit(SimStream& stream, Node node) {
  if (!stream.capture) {
    SimContext& context = *context_of(stream.device);
    enqueue(stream, [node = std::move(node), &context] { run_node(node, context); });
    return kSuccess;
  }
  if (stream.capture->invalid) return kStreamCaptureInvalidated;
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back(std::make_shared<Node>(std::move(node)));
  stream.tail = {reinterpret_cast<GraphNode>(nodes.back().get())};
  return kSuccess;
}

Result cuStreamIsCapturing(Stream stream, int* status) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  *status = capture_status(*found);
  return kSuccess;
}

Result cuStreamBeginCapture(Stream stream, int mode) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  SimStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  if (found->handle == nullptr) return kStreamCaptureUnsupported;
  if (found->capture) return kIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->origin = stream;
  capture->device = found->device;
  capture->thread = std::this_thread::get_id();
  capture->mode = mode;
  found->capture = capture;
  found->tail.clear();
  machine().captures.push_back(capture);
  return kSuccess;
}

Result cuStreamEndCapture(Stream stream, Graph* graph) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  *graph = nullptr;
  SimStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  const std::shared_ptr<Capture> capture = found->capture;
  if (!capture) return kIllegalState;
  const bool wrong_thread =
      capture->mode != kCaptureModeRelaxed && capture->thread != std::this_thread::get_id();
  if (capture->origin != stream) return capture->invalid = true, kCaptureUnmatched;
  const std::vector<GraphNode> joined = found->tail;
  bool unjoined = false;
  for (auto& [handle, other] : machine().streams) {
    if (other->capture != capture) continue;
    for (const GraphNode node : other->tail)
      if (std::find(joined.begin(), joined.end(), node) == joined.end()) unjoined = true;
    other->capture = nullptr;
    other->tail.clear();
  }
  for (auto& [handle, event] : machine().events)
    if (event->capture == capture) {
      event->capture = nullptr;
      event->time_ms = nullptr;
    }
  std::erase_if(machine().captures, [&](const auto& weak) { return weak.lock() == capture; });
  if (wrong_thread) return kStreamCaptureWrongThread;
  if (capture->invalid) return kStreamCaptureInvalidated;
  if (unjoined) return kCaptureUnjoined;
  *graph = machine().graphs.add(capture->graph);
  return kSuccess;
}

Result cuStreamGetCaptureInfo(Stream stream, int* status, std::uint64_t* id, Graph* graph,
                              const GraphNode** dependencies, const void** edges,
                              std::size_t* num_dependencies) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  *status = capture_status(*found);
  if (*status != 1) return kSuccess;
  if (id != nullptr) *id = reinterpret_cast<std::uint64_t>(found->capture.get());
  if (graph != nullptr) *graph = reinterpret_cast<Graph>(found->capture->graph.get());
  if (dependencies != nullptr) *dependencies = found->tail.data();
  if (edges != nullptr) *edges = nullptr;
  if (num_dependencies != nullptr) *num_dependencies = found->tail.size();
  return kSuccess;
}

Result cuThreadExchangeStreamCaptureMode(int* mode) {
  const Call call(Need::kInit);
  if (call.refused() != kSuccess) return call.refused();
  if (*mode < 0 || *mode > kCaptureModeRelaxed) return kInvalidValue;
  std::swap(*mode, thread_mode());
  return kSuccess;
}

}  // namespace gpk::sim::driver
