#include "bindings/runtime_tasks.h"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "bindings/errors.h"
#include "core/trace_log.h"
#include "device/memory_account.h"

namespace gpk::bind {
namespace {

constexpr std::size_t kMaxErrorsKept = 16384;

// Calls a Python function; on failure returns the exception object and "ValueError: text".
struct CallFailure {
  std::shared_ptr<void> exception;
  std::string reason;
};

std::string exception_text(py::handle type, py::handle value) {
  std::string name = py::str(type.attr("__name__"));
  try {
    const std::string text = py::str(value);
    return text.empty() ? name : name + ": " + text;
  } catch (py::error_already_set& error) {  // a __str__ that raises
    if (!error.matches(PyExc_Exception)) throw;
    return name;
  }
}

// Set where Ctrl-C ended a task of the main thread, to be raised again there.
bool g_interrupted = false;

void raise_interrupt() {
  if (!std::exchange(g_interrupted, false)) return;
  const WithGil gil;
  PyErr_SetNone(PyExc_KeyboardInterrupt);
  throw py::error_already_set();
}

std::optional<CallFailure> call_python(void* function) {
  if (python_has_ended()) return CallFailure{nullptr, "Python has ended"};
  const WithGil gil;
  try {
    call_function(static_cast<PyObject*>(function));
    return std::nullopt;
  } catch (py::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt) && on_main_thread()) g_interrupted = true;
    if (error.trace()) PyException_SetTraceback(error.value().ptr(), error.trace().ptr());
    return CallFailure{keep_alive(error.value()), exception_text(error.type(), error.value())};
  }
}

thread_local device::TaskStreams* t_streams = nullptr;  // see streams_of_body

// The function's allocations come from the task's reservation first.
std::optional<CallFailure> call_with_room(device::PoolLedger* pool, std::size_t bytes,
                                          const std::string& account, void* function) {
  std::optional<device::PoolLedger::Scope> room;
  if (pool != nullptr) room.emplace(*pool, bytes, account);
  return call_python(function);
}

}  // namespace

std::atomic<bool>& python_has_ended() {
  static std::atomic<bool> ended{false};
  return ended;
}

runtime::SchedulePolicy schedule_policy(const std::string& name) {
  using runtime::SchedulePolicy;
  for (const auto policy : {SchedulePolicy::kFifo, SchedulePolicy::kSjf, SchedulePolicy::kPriority})
    if (name == to_string(policy)) return policy;
  throw InvalidArgument(
      cat("scheduler: policy is '", name, "', expected 'fifo', 'sjf' or 'priority'"));
}

device::TaskStreams* TaskEngine::streams_of_body() noexcept { return t_streams; }

TaskEngine::TaskEngine(std::shared_ptr<runtime::MemoryLedger> ledger, const Options& options)
    : shared_(std::make_shared<Shared>()) {
  shared_->pool = std::dynamic_pointer_cast<device::PoolLedger>(ledger);
  shared_->scheduler = std::make_shared<runtime::Scheduler>(std::move(ledger), options.scheduler);
  shared_->streams = std::make_unique<device::TaskStreams>(options.device, options.max_streams);
}

TaskEngine::~TaskEngine() {
  if (!python_runs()) {  // a thread of ours may be parked: nothing here can be joined
    stop();
    new (std::nothrow) std::shared_ptr<Shared>(std::move(shared_));  // leaked deliberately
    return;
  }
  const auto end = [this] {
    stop();
    shared_.reset();
  };
  if (PyGILState_Check() != 0) {
    const WithoutGil released;  // the watcher may be in a callback that needs the GIL
    end();
  } else {
    end();
  }
}

void TaskEngine::Shared::keep_error(TaskId id, Error error) {
  // Released without the lock: a Python object needs the GIL.
  std::map<TaskId, Error>::node_type replaced;
  std::map<TaskId, Error>::node_type dropped;
  const std::lock_guard lock(mutex);
  replaced = errors.extract(id);
  errors.emplace(id, std::move(error));
  if (errors.size() > kMaxErrorsKept) dropped = errors.extract(errors.begin());
}

void TaskEngine::run_inline(Shared& shared, TaskId id, const Work& work) {
  const std::optional<TraceLane> lane = begin_trace(shared);
  device::TaskStreams* const outer = std::exchange(t_streams, nullptr);
  std::optional<CallFailure> failure =
      call_with_room(shared.pool.get(), work.memory_bytes, work.account, work.function.get());
  t_streams = outer;
  end_trace(shared, id, lane, failure.has_value());
  if (!failure) return;
  if (failure->exception) shared.keep_error(id, std::move(failure->exception));
  throw std::runtime_error(failure->reason);
}

// The task ends when everything it submitted has, even if it failed meanwhile: until then its
// memory may be in use.
void TaskEngine::run_on_stream(const std::shared_ptr<Shared>& shared, runtime::TaskContext& context,
                               const Work& work) {
  const TaskId id = context.id();
  device::TaskStreams& streams = *shared->streams;
  const std::shared_ptr<device::DevicePartition>& partition = work.place.partition;
  device::TaskStreams::Lease lease;
  try {
    lease = partition ? streams.acquire(partition) : streams.acquire(work.place.stream_class);
  } catch (...) {
    shared->keep_error(id, std::current_exception());
    throw;
  }
  if (lease.stream == nullptr) throw std::runtime_error("the scheduler was shut down");
  const std::optional<TraceLane> lane = begin_trace(*shared);
  std::optional<CallFailure> failure;
  TaskWork submitted;
  {
    const StreamScope scope(lease.stream);
    const device::AccountScope account(streams.device(),
                                       partition ? partition->account() : nullptr);
    const TaskWork::Scope noted(&submitted);
    device::TaskStreams* const outer = std::exchange(t_streams, partition ? nullptr : &streams);
    failure =
        call_with_room(shared->pool.get(), work.memory_bytes, work.account, work.function.get());
    t_streams = outer;
  }
  context.detach();
  std::string reason;
  const bool cancelled = context.cancel_requested();
  if (failure) {
    if (failure->exception) shared->keep_error(id, std::move(failure->exception));
    reason = failure->reason;
  }
  // The task's own end may release the engine: the streams must outlive the call.
  streams.finish(std::move(lease), submitted,
                 [shared, id, reason, cancelled, lane](const std::exception_ptr& error) {
                   try {
                     end_trace(*shared, id, lane, error != nullptr || !reason.empty());
                     end_on_stream(*shared, id, reason, error, cancelled);
                   } catch (const std::exception&) {  // no memory for the failure text
                     shared->scheduler->fail(id, "failed");
                   }
                 });
}

void TaskEngine::end_on_stream(Shared& shared, TaskId id, const std::string& reason,
                               std::exception_ptr error, bool cancelled) {
  if (!reason.empty()) {
    if (cancelled) {
      shared.scheduler->complete(id);  // ends as cancelled, as requested
    } else {
      shared.scheduler->fail(id, reason);
    }
    return;
  }
  if (error == nullptr) {
    shared.scheduler->complete(id);
    return;
  }
  const std::string what = message_of(error);
  shared.keep_error(id, std::move(error));
  shared.scheduler->fail(id, what);
}

// nullopt while the trace is off.
std::optional<TaskEngine::TraceLane> TaskEngine::begin_trace(Shared& shared) {
  if (!trace_log().enabled()) return std::nullopt;
  const std::lock_guard lock(shared.mutex);
  unsigned lane = 0;
  while (shared.lanes.contains(lane)) ++lane;
  shared.lanes.insert(lane);
  return TraceLane{lane, trace_log().now_ns()};
}

// Before the task's end is announced: a waiter must find it in the trace.
void TaskEngine::end_trace(Shared& shared, TaskId id, std::optional<TraceLane> lane, bool failed) {
  if (!lane) return;
  const runtime::TaskInfo info = shared.scheduler->info(id);
  TraceRecorder& log = trace_log();
  const std::int64_t now_ns = log.now_ns();
  const std::string name = info.name.empty() ? cat("task ", id) : info.name;
  log.span(TraceCategory::kTask, name, log.track(cat("tasks ", lane->row)), lane->start_ns,
           now_ns - lane->start_ns, {"memory", static_cast<double>(info.memory_bytes)},
           {"failed", failed ? 1.0 : 0.0});
  const std::size_t reserved = shared.scheduler->stats().reserved_memory_bytes;
  log.counter("reserved memory", now_ns,
              static_cast<double>(reserved - std::min(reserved, info.reserved_memory_bytes)));
  const std::lock_guard lock(shared.mutex);
  shared.lanes.erase(lane->row);
}

TaskEngine::TaskId TaskEngine::submit(runtime::TaskSpec spec, std::shared_ptr<void> function,
                                      Place place) {
  Work work{std::move(function), std::move(place), spec.memory_bytes, spec.account};
  const std::weak_ptr<Shared> weak = shared_;  // a waiting task does not keep its scheduler alive
  if (work.function != nullptr)
    spec.body = [weak, work = std::move(work)](runtime::TaskContext& context) {
      const std::shared_ptr<Shared> shared = weak.lock();
      if (shared == nullptr) return;
      if (work.place.on_stream) {
        run_on_stream(shared, context, work);
      } else {
        run_inline(*shared, context.id(), work);
      }
    };
  return shared_->scheduler->submit(std::move(spec));
}

std::size_t TaskEngine::run_ready(std::size_t max_tasks) {
  if (!on_main_thread()) return shared_->scheduler->run_ready(max_tasks);
  g_interrupted = false;
  std::size_t count = 0;
  while (count < max_tasks && !g_interrupted && shared_->scheduler->run_ready(1) == 1) ++count;
  raise_interrupt();
  return count;
}

std::size_t TaskEngine::run_until_idle() {
  const std::size_t count = run_ready(std::numeric_limits<std::size_t>::max());
  return count + shared_->scheduler->run_until_idle();
}

void TaskEngine::serve() {
  std::stop_token token;
  {
    const std::lock_guard lock(stop_mutex_);
    token = stop_.get_token();
  }
  shared_->scheduler->serve(token);
}

void TaskEngine::stop() {
  {
    const std::lock_guard lock(stop_mutex_);
    stop_.request_stop();
  }
  shared_->streams->close();
}

py::object TaskEngine::exception(TaskId id) const {
  std::exception_ptr error;
  {
    const std::lock_guard lock(shared_->mutex);
    const auto found = shared_->errors.find(id);
    if (found == shared_->errors.end()) return py::none();
    if (const auto* object = std::get_if<std::shared_ptr<void>>(&found->second))
      return py::reinterpret_borrow<py::object>(static_cast<PyObject*>(object->get()));
    error = std::get<std::exception_ptr>(found->second);
  }
  try {
    std::rethrow_exception(error);
  } catch (...) {
    set_python_error();
  }
  const py::error_already_set raised;
  return raised.value();
}

}  // namespace gpk::bind
