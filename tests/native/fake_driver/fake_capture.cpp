// Stream capture: submissions that become nodes of a graph instead of running.
#include <algorithm>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

// cuThreadExchangeStreamCaptureMode; new threads start in the global mode (0).
int& thread_mode() {
  thread_local int mode = 0;
  return mode;
}

template <class Function>
void for_each_capture(const Function& function) {
  auto& all = state().captures;
  std::erase_if(all, [](const std::weak_ptr<Capture>& capture) { return capture.expired(); });
  for (const auto& weak : all)
    if (const auto capture = weak.lock()) function(*capture);
}

}  // namespace

Result check_unsafe_call() {
  if (thread_mode() == cu::kCaptureModeRelaxed) return cu::kSuccess;
  Result result = cu::kSuccess;
  for_each_capture([&](Capture& capture) {
    constexpr int kGlobal = 0;
    const bool ours = capture.thread == std::this_thread::get_id();
    if (capture.mode == cu::kCaptureModeRelaxed) return;
    if (!ours && !(capture.mode == kGlobal && thread_mode() == kGlobal)) return;
    capture.invalid = true;
    result = cu::kStreamCaptureUnsupported;
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

void run_node(const Node& node, cu::Stream stream) {
  State& s = state();
  if (!node.launch) return node.effect();
  s.launches.push_back(*node.launch);
  Launch launch = *node.launch;
  launch.stream = s.launches.back().stream = stream;
  std::vector<void*> params;
  for (auto& arg : launch.args) params.push_back(arg.data());
  if (const auto body = s.settings.bodies.find(launch.function); body != s.settings.bodies.end())
    body->second(launch, params.data());
  else if (const BuiltinKernel* builtin = find_builtin(launch.function); builtin != nullptr)
    if (params.size() == builtin->param_sizes.size()) builtin->body(launch, params.data());
}

Result submit(FakeStream& stream, const char* call, Node node) {
  State& s = state();
  s.clock_ms += 0.001;
  s.stream_calls.push_back({call, stream.handle, nullptr});
  if (!stream.capture) {
    run_node(node, stream.handle);
    return cu::kSuccess;
  }
  if (stream.capture->invalid) return cu::kStreamCaptureInvalidated;
  auto& nodes = stream.capture->graph->nodes;
  nodes.push_back(std::make_unique<Node>(std::move(node)));
  stream.tail = {reinterpret_cast<cu::GraphNode>(nodes.back().get())};
  return cu::kSuccess;
}

namespace impl {

Result cuStreamIsCapturing(Stream stream, int* status) {
  const FakeStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  *status = !found->capture ? kCaptureStatusNone : found->capture->invalid ? 2 : 1;
  return kSuccess;
}

Result cuStreamBeginCapture(Stream stream, int mode) {
  FakeStream* found = find_stream(stream);
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
  state().captures.push_back(capture);
  return kSuccess;
}

Result cuStreamEndCapture(Stream stream, Graph* graph) {
  *graph = nullptr;
  FakeStream* found = find_stream(stream);
  if (found == nullptr) return kInvalidHandle;
  const std::shared_ptr<Capture> capture = found->capture;
  if (!capture) return kIllegalState;
  const bool wrong_thread =
      capture->mode != kCaptureModeRelaxed && capture->thread != std::this_thread::get_id();
  if (capture->origin != stream) return capture->invalid = true, kCaptureUnmatched;
  const std::vector<GraphNode> joined = found->tail;
  bool unjoined = false;
  for (auto& [handle, other] : state().streams) {
    if (other->capture != capture) continue;
    for (const GraphNode node : other->tail)
      if (std::find(joined.begin(), joined.end(), node) == joined.end()) unjoined = true;
    other->capture = nullptr;
    other->tail.clear();
  }
  for (auto& [handle, event] : state().events)
    if (event->capture == capture) {
      event->capture = nullptr;
      event->recorded = false;
    }
  std::erase_if(state().captures, [&](const auto& weak) { return weak.lock() == capture; });
  if (wrong_thread) return kStreamCaptureWrongThread;
  if (capture->invalid) return kStreamCaptureInvalidated;
  if (unjoined) return kCaptureUnjoined;
  *graph = state().graphs.add(std::move(capture->graph));
  return kSuccess;
}

Result cuStreamGetCaptureInfo(Stream stream, int* status, std::uint64_t* id, Graph* graph,
                              const GraphNode** dependencies, const void** edges,
                              std::size_t* num_dependencies) {
  if (const Result result = cuStreamIsCapturing(stream, status); result != kSuccess) return result;
  const FakeStream* found = find_stream(stream);
  if (*status != 1) return kSuccess;
  if (id != nullptr) *id = reinterpret_cast<std::uint64_t>(found->capture.get());
  if (graph != nullptr) *graph = reinterpret_cast<Graph>(found->capture->graph.get());
  if (dependencies != nullptr) *dependencies = found->tail.data();
  if (edges != nullptr) *edges = nullptr;
  if (num_dependencies != nullptr) *num_dependencies = found->tail.size();
  return kSuccess;
}

Result cuThreadExchangeStreamCaptureMode(int* mode) {
  if (*mode < 0 || *mode > kCaptureModeRelaxed) return kInvalidValue;
  std::swap(*mode, thread_mode());
  return kSuccess;
}

}  // namespace impl
}  // namespace fake
