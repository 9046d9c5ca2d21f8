#include "core/graph.h"

#include "base/error.h"
#include "base/text.h"
#include "core/buffer.h"
#include "core/check.h"
#include "core/context.h"
#include "core/device_memory.h"
#include "core/gated_work.h"
#include "core/kernel_trace.h"

namespace gpk::inline core {
namespace {

// Read on every launch, hence a plain pointer; its owner is in own_slot().
thread_local CaptureSlot* t_slot = nullptr;

std::shared_ptr<CaptureSlot> own_slot() {
  thread_local const auto slot = std::make_shared<CaptureSlot>();
  t_slot = slot.get();
  return slot;
}

}  // namespace

Graph* capturing_graph() noexcept {
  return t_slot == nullptr ? nullptr : t_slot->graph.load(std::memory_order_relaxed);
}

CaptureMemory* capture_memory(Device device) noexcept {
  const Graph* graph = capturing_graph();
  if (graph == nullptr || !(graph->device() == device)) [[likely]]
    return nullptr;
  return graph->memory();
}

void forbid_in_capture(const char* op, const char* why) {
  if (capturing_graph() != nullptr) [[unlikely]]
    throw CaptureError(cat(op, ": cannot be captured into a graph: ", why));
}

Graph::Graph(Device device)
    : device_(device), stream_(Stream::create(device, StreamPriority::kLow)) {}

Graph::~Graph() {
  abandon_capture();
  if (capturing_) {  // by another thread; destroying the stream ends its capture
    slot_->graph = nullptr;
    if (device_.is_cuda()) --stream_->context()->num_captures();
  }
  destroy();
}

void Graph::destroy() noexcept {
  try {
    if (exec_ != nullptr || graph_ != nullptr) stream_->context()->make_current();
    if (exec_ != nullptr) driver().cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) driver().cuGraphDestroy(graph_);
  } catch (...) {  // the device is lost, and its graphs with it
  }
  exec_ = nullptr;
  graph_ = nullptr;
  ready_ = false;
  num_nodes_ = 0;
  launches_.clear();
  host_calls_.clear();
  for (const auto& [key, buffer] : kept_) buffer->unpin();
  kept_.clear();
  own_.clear();
  close_memory();
  replay_streams_.clear();
}

void Graph::close_memory() noexcept {
  if (memory_ == nullptr) return;
  try {
    memory_->close(replay_streams_);
  } catch (...) {  // the device is lost, and its memory with it
  }
  memory_.reset();
}

void Graph::reset() {
  if (capturing_) throw CaptureError("reset: the graph is being captured; end the capture first");
  if (ready_)
    for (const auto& stream : replay_streams_) stream->synchronize();
  destroy();
}

// A graph's nodes keep the SM partition and the priority of the stream they were captured on,
// wherever the graph is replayed: inside a partition the capture needs a stream like its own.
void Graph::capture_where_current() {
  if (!device_.is_cuda()) return;
  const auto& current = current_stream(device_);
  const auto green = current->green();
  const int priority = current->tenant() != nullptr ? current->driver_priority() : 0;
  if (green == green_ && priority == stream_->driver_priority()) return;
  stream_ = Stream::create_in(device_, green, priority);
  green_ = green;
}

void Graph::begin_capture() {
  if (capturing_graph() != nullptr)
    throw CaptureError("begin_capture: this thread is capturing a graph already");
  reset();
  capture_where_current();
  if (device_.is_cuda()) {
    Context& context = *stream_->context();
    context.make_current();
    // A stream in capture cannot record events for the pool; flush its pending frees first.
    context.memory().forget_stream(*stream_);
    memory_ = context.memory().open_capture();
    ++context.num_captures();
    const cu::Result result =
        driver().cuStreamBeginCapture(stream_->handle(), cu::kCaptureModeThreadLocal);
    if (result != cu::kSuccess) {
      --context.num_captures();
      close_memory();
    }
    check_cuda(result, "cuStreamBeginCapture");
  }
  previous_stream_ = exchange_current_stream(stream_);
  slot_ = own_slot();
  slot_->graph = this;
  capturing_ = true;
}

// Restores the calling thread's state, whatever becomes of the capture.
void Graph::leave_capture() {
  shared_.clear();
  slot_->graph = nullptr;
  capturing_ = false;
  exchange_current_stream(std::move(previous_stream_));
  if (device_.is_cuda()) --stream_->context()->num_captures();
}

void Graph::end_capture() {
  if (capturing_graph() != this)
    throw CaptureError("end_capture: this thread is not capturing this graph");
  leave_capture();
  if (!device_.is_cuda()) {
    num_nodes_ = host_calls_.size();
    ready_ = num_nodes_ > 0;
    if (ready_) return;
    destroy();
    throw CaptureError("end_capture: nothing was captured");
  }
  stream_->context()->make_current();
  cu::Graph graph = nullptr;
  const cu::Result result = driver().cuStreamEndCapture(stream_->handle(), &graph);
  if (result != cu::kSuccess) destroy();
  if (result == cu::kStreamCaptureInvalidated)
    throw CaptureError(
        "end_capture: an operation that cannot be captured was called during the capture");
  check_cuda(result, "cuStreamEndCapture");
  instantiate(graph);
}

void Graph::instantiate(cu::Graph graph) {
  graph_ = graph;
  std::size_t count = 0;
  GPK_CU_CHECK(cuGraphGetNodes, graph, nullptr, &count);
  if (count == 0) {
    destroy();
    throw CaptureError("end_capture: nothing was captured");
  }
  const cu::Result result = driver().cuGraphInstantiateWithFlags(&exec_, graph, 0);
  if (result != cu::kSuccess) destroy();
  check_cuda(result, "cuGraphInstantiateWithFlags");
  num_nodes_ = count;
  ready_ = true;
}

void Graph::abandon_capture() noexcept {
  if (capturing_graph() != this) return;
  try {
    leave_capture();
    if (device_.is_cuda()) {
      stream_->context()->make_current();
      cu::Graph graph = nullptr;
      driver().cuStreamEndCapture(stream_->handle(), &graph);
      if (graph != nullptr) driver().cuGraphDestroy(graph);
    }
  } catch (...) {  // the device is lost, which ended the capture
  }
  destroy();
}

void Graph::replay(const std::shared_ptr<Stream>& stream) {
  if (!ready_) throw CaptureError("replay: the graph is empty; capture first");
  if (!device_.is_cuda()) {
    forbid_in_capture("replay", "nested graphs are not supported on the CPU backend");
    for (const auto& call : host_calls_) call();
    return;
  }
  const auto& target = stream ? stream : current_stream(device_);
  target->context()->make_current();
  if (replay_streams_.empty() || replay_streams_.back() != target) {
    std::erase(replay_streams_, target);
    replay_streams_.push_back(target);
    mark_replay(target);
  }
  GatedWork work(*target);
  TracedKernel traced("graph", nullptr, nullptr, *target);
  GPK_CU_CHECK(cuGraphLaunch, exec_, target->handle());
  traced.submitted();
  work.submitted();
}

void Graph::synchronize() {
  forbid_in_capture("synchronize", "the work is only being recorded");
  if (!replay_streams_.empty()) replay_streams_.back()->synchronize();
}

void Graph::mark_replay(const std::shared_ptr<Stream>& stream) {
  for (const auto& [key, buffer] : kept_) buffer->mark_use(stream);
  for (const auto& [key, weak] : own_)
    if (const auto buffer = weak.lock()) buffer->mark_use(stream);
}

void Graph::keep(const std::shared_ptr<Buffer>& buffer) {
  for (const auto& stream : replay_streams_) buffer->mark_use(stream);
  if (memory_ != nullptr && buffer->capture_id() == memory_->id()) {
    own_[buffer.get()] = buffer;
    return;
  }
  const auto [place, fresh] = kept_.try_emplace(buffer.get(), buffer);
  if (!fresh) return;
  try {
    buffer->pin();
  } catch (...) {
    kept_.erase(place);
    throw;
  }
}

void Graph::note_launch(const Kernel& kernel, const LaunchConfig& config, Stream& stream) {
  if (&stream != stream_.get() && !stream.capturing()) return;  // not captured: it ran eagerly
  GraphLaunch launch{config, kernel.shared_from_this(), nullptr, nullptr, 0};
  if (driver().cuStreamGetCaptureInfo != nullptr) {
    int status = cu::kCaptureStatusNone;
    const cu::GraphNode* nodes = nullptr;
    const void* edges = nullptr;
    std::size_t count = 0;
    GPK_CU_CHECK(cuStreamGetCaptureInfo, stream.handle(), &status, nullptr, nullptr, &nodes, &edges,
                 &count);
    if (count == 1) launch.node = nodes[0];  // the stream's newest node is the launch
  }
  launches_.push_back(std::move(launch));
}

void Graph::record_host_call(std::function<void()> call) { host_calls_.push_back(std::move(call)); }

void Graph::record_host_launch(const LaunchConfig& config, std::shared_ptr<void> kernel,
                               std::function<void()> call) {
  launches_.push_back({config, nullptr, nullptr, std::move(kernel), host_calls_.size()});
  record_host_call(std::move(call));
}

void Graph::replace_host_launch(std::size_t index, std::function<void()> call) {
  host_calls_[launches_.at(index).host_call] = std::move(call);
}

void Graph::set_launch_params(std::size_t index, void** params) {
  if (!ready_) throw CaptureError("set_args: the graph is empty; capture first");
  if (index >= launches_.size())
    throw InvalidArgument(InvalidArgument::Kind::kIndex,
                          cat("set_args: launch ", index, " does not exist, the graph has ",
                              launches_.size(), " kernel launches"));
  const GraphLaunch& launch = launches_[index];
  if (driver().cuGraphExecKernelNodeSetParams == nullptr || launch.node == nullptr)
    throw CaptureError(
        "set_args: this driver cannot change kernel arguments of a graph (12.3 can)");
  const LaunchConfig& c = launch.config;
  const cu::KernelNodeParams node_params{
      .function = launch.kernel->function(),
      .grid = {c.grid[0], c.grid[1], c.grid[2]},
      .block = {c.block[0], c.block[1], c.block[2]},
      .shared_bytes = static_cast<unsigned>(c.shared_bytes),
      .params = params,
      .extra = nullptr,
      .kernel = nullptr,
      .context = nullptr,
  };
  stream_->context()->make_current();
  GPK_CU_CHECK(cuGraphExecKernelNodeSetParams, exec_, launch.node, &node_params);
}

}  // namespace gpk::inline core
