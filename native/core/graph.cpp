#include "core/graph.h"

#include "core/check.h"
#include "core/context.h"
#include "core/error.h"
#include "core/memory.h"
#include "core/text.h"

namespace gpk {
namespace {

thread_local Graph* t_capturing = nullptr;

}  // namespace

Graph* capturing_graph() noexcept { return t_capturing; }

std::shared_ptr<Allocator> capture_allocator(Device device) {
  if (t_capturing == nullptr || !(t_capturing->device() == device)) [[likely]]
    return nullptr;
  return t_capturing->pool();
}

void forbid_in_capture(const char* op, const char* why) {
  if (t_capturing != nullptr) [[unlikely]]
    throw CaptureError(cat(op, ": cannot be captured into a graph: ", why));
}

Graph::Graph(Device device)
    : device_(device), stream_(Stream::create(device, StreamPriority::kLow)) {}

Graph::~Graph() {
  if (capturing_) abandon_capture();
  destroy();
}

void Graph::destroy() noexcept {
  try {
    if (exec_ != nullptr || graph_ != nullptr) stream_->context()->make_current();
    if (exec_ != nullptr) driver().cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) driver().cuGraphDestroy(graph_);
  } catch (...) {  // a lost device has taken its graphs along
  }
  exec_ = nullptr;
  graph_ = nullptr;
  ready_ = false;
  num_nodes_ = 0;
  launches_.clear();
  host_calls_.clear();
  kept_.clear();
  pool_.reset();
}

void Graph::reset() {
  if (capturing_) throw CaptureError("reset: the graph is being captured; end the capture first");
  if (ready_) stream_->synchronize();
  destroy();
}

void Graph::begin_capture() {
  if (t_capturing != nullptr)
    throw CaptureError("begin_capture: this thread is capturing a graph already");
  reset();
  if (device_.is_cuda()) {
    Context& context = *stream_->context();
    context.synchronize();  // work submitted before must not be waited for inside the capture
    pool_ = make_caching_allocator(context);
    GPK_CU_CHECK(cuStreamBeginCapture, stream_->handle(), cu::kCaptureModeThreadLocal);
  }
  previous_stream_ = exchange_current_stream(stream_);
  t_capturing = this;
  capturing_ = true;
}

void Graph::end_capture() {
  if (t_capturing != this)
    throw CaptureError("end_capture: this thread is not capturing this graph");
  t_capturing = nullptr;
  capturing_ = false;
  exchange_current_stream(std::move(previous_stream_));
  if (!device_.is_cuda()) {
    num_nodes_ = host_calls_.size();
    if (num_nodes_ == 0) throw CaptureError("end_capture: nothing was captured");
    ready_ = true;
    return;
  }
  stream_->context()->make_current();
  cu::Graph graph = nullptr;
  const cu::Result result = driver().cuStreamEndCapture(stream_->handle(), &graph);
  if (result == cu::kStreamCaptureInvalidated) {
    destroy();
    throw CaptureError(
        "end_capture: an operation that cannot be captured was called during the capture");
  }
  if (result != cu::kSuccess) destroy();
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
  if (!capturing_) return;
  try {
    if (t_capturing == this) {
      t_capturing = nullptr;
      exchange_current_stream(std::move(previous_stream_));
    }
    capturing_ = false;
    if (device_.is_cuda()) {
      stream_->context()->make_current();
      cu::Graph graph = nullptr;
      driver().cuStreamEndCapture(stream_->handle(), &graph);
      if (graph != nullptr) driver().cuGraphDestroy(graph);
    }
  } catch (...) {  // a lost device has ended the capture
  }
  destroy();
}

void Graph::replay(const std::shared_ptr<Stream>& stream) {
  if (!ready_) throw CaptureError("replay: the graph holds nothing; capture first");
  if (!device_.is_cuda()) {
    forbid_in_capture("replay", "nested graphs are not supported on the CPU backend");
    for (const auto& call : host_calls_) call();
    return;
  }
  const auto& target = stream ? stream : stream_;
  target->context()->make_current();
  GPK_CU_CHECK(cuGraphLaunch, exec_, target->handle());
}

void Graph::synchronize() { stream_->synchronize(); }

void Graph::note_launch(const Kernel& kernel, const LaunchConfig& config, Stream& stream) {
  if (&stream != stream_.get()) return;  // another stream of the same thread: it ran at once
  GraphLaunch launch{config, kernel.shared_from_this(), nullptr};
  if (driver().cuStreamGetCaptureInfo != nullptr) {
    int status = cu::kCaptureStatusNone;
    const cu::GraphNode* nodes = nullptr;
    std::size_t count = 0;
    GPK_CU_CHECK(cuStreamGetCaptureInfo, stream.handle(), &status, nullptr, nullptr, &nodes,
                 nullptr, &count);
    if (count == 1) launch.node = nodes[0];  // the stream's newest node is the launch
  }
  launches_.push_back(std::move(launch));
}

void Graph::record_host_call(std::function<void()> call) { host_calls_.push_back(std::move(call)); }

void Graph::set_launch_params(std::size_t index, void** params) {
  if (!ready_) throw CaptureError("set_args: the graph holds nothing; capture first");
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

}  // namespace gpk
