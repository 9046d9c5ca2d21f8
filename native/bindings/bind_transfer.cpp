// The transfer engine: copies in the background, with futures.
#include <pybind11/numpy.h>

#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "core/graph.h"
#include "device/transfers.h"

namespace gpk::bind {
namespace {

using runtime::TransferType;

// What is called when a transfer is done, and what it needs until then.
class Completion {
 public:
  Completion(const Array& array, std::shared_ptr<void> host)
      : memory_(std::make_unique<BufferPin>(array.buffer())), host_(std::move(host)) {}
  explicit Completion(std::shared_ptr<void> kept) : host_(std::move(kept)) {}

  // On a thread of the engine, without any lock.
  void finish() {
    release();
    std::vector<std::shared_ptr<void>> callbacks;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      callbacks = std::move(callbacks_);
    }
    if (callbacks.empty() || !python_runs()) return;
    const WithGil gil;
    for (const auto& callback : callbacks) call(callback);
  }

  // Releases the memory of a transfer that is done. On return it is released, whichever thread got
  // here first. Without the GIL, which the other thread may need.
  void release() {
    std::call_once(released_, [this] {
      memory_.reset();
      host_.reset();
    });
  }

  void add(const py::object& callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!done_) {
        callbacks_.push_back(keep_alive(callback));
        return;
      }
    }
    callback();
  }

 private:
  static void call(const std::shared_ptr<void>& callback) {
    try {
      call_function(static_cast<PyObject*>(callback.get()));
    } catch (py::error_already_set& error) {
      report_unraisable(error, "TransferFuture callback");
    }
  }

  std::once_flag released_;
  std::unique_ptr<BufferPin> memory_;  // on the device, where it is, until the copy is done
  std::shared_ptr<void> host_;
  std::mutex mutex_;
  bool done_ = false;
  std::vector<std::shared_ptr<void>> callbacks_;
};

struct Future {
  std::shared_ptr<device::Transfers> transfers;  // first: the engine outlives the future
  runtime::TransferFuture future;
  std::shared_ptr<Completion> completion;

  // Once a caller has seen the end of the transfer, nothing of it holds memory any more.
  bool done() const {
    if (!future.done()) return false;
    const WithoutGil released;
    completion->release();
    return true;
  }
  void wait() {
    const WithoutGil released;
    const AtEnd release{*this};
    future.wait();
  }

 private:
  struct AtEnd {
    const Future& of;
    ~AtEnd() {
      if (of.future.done()) of.completion->release();
    }
  };
};

py::array check_host(const Array& array, py::handle host, const char* op, bool written) {
  if (!py::isinstance<py::array>(host))
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": host is ", safe_repr(host), ", expected a numpy.ndarray"));
  auto result = py::reinterpret_borrow<py::array>(host);
  if (info(array.dtype()).bits == 4)
    throw InvalidArgument(cat(op, ": ", name(array.dtype()),
                              " is packed two to a byte; use from_numpy and to_numpy"));
  if (!array.is_contiguous()) throw InvalidArgument(cat(op, ": the array is not contiguous"));
  Dims shape = Dims::filled(static_cast<int>(result.ndim()), 0);
  for (int i = 0; i < shape.size(); ++i) shape[i] = result.shape(i);
  if (!(shape == array.shape()))
    throw InvalidArgument(cat(op, ": host has shape ", to_string(shape), ", the array has ",
                              to_string(array.shape())));
  if (!result.dtype().equal(numpy_dtype(array.dtype())))
    throw InvalidArgument(cat(op, ": host has dtype ", std::string(py::str(result.dtype())),
                              ", the array has ", name(array.dtype())));
  if ((result.flags() & py::array::c_style) == 0)
    throw InvalidArgument(cat(op, ": host is not C-contiguous"));
  if (written && !result.writeable()) throw InvalidArgument(cat(op, ": host is read-only"));
  if (!written && array.buffer()->read_only())
    throw InvalidArgument(cat(op, ": the array is read-only"));
  return result;
}

TransferType type_from_name(const std::string& name, const char* op) {
  for (const TransferType type : {TransferType::kH2D, TransferType::kD2H, TransferType::kD2D})
    if (name == runtime::to_string(type)) return type;
  throw InvalidArgument(cat(op, ": type is '", name, "', expected 'h2d', 'd2h' or 'd2d'"));
}

std::shared_ptr<Future> submit(TransferType type, const Array& array, py::handle host, int priority,
                               py::handle stream, const char* op) {
  forbid_in_capture(op, "the copy would not be part of a replay");
  const bool to_device = type == TransferType::kH2D;
  const py::array memory = check_host(array, host, op, !to_device);
  const auto on = stream_from_python(stream, array.device(), op);
  const auto host_address = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto device_address = reinterpret_cast<std::uintptr_t>(array.data());
  auto completion = std::make_shared<Completion>(array, keep_alive(memory));
  const WithoutGil released;
  auto engine = device::transfers(array.device());
  if (array.device().is_cuda()) {
    array.buffer()->order_before(*on);
    array.buffer()->mark_use(on);
  }
  runtime::TransferEngine::SubmitOptions options;
  options.priority = priority;
  options.on_done = [completion](const runtime::TransferOp&) { completion->finish(); };
  auto future = engine->submit(type, to_device ? device_address : host_address,
                               to_device ? host_address : device_address, array.nbytes(), on,
                               std::move(options));
  return std::make_shared<Future>(Future{std::move(engine), std::move(future), completion});
}

std::shared_ptr<Future> submit_copy(const std::string& name, std::uintptr_t dst, std::uintptr_t src,
                                    std::size_t bytes, int priority, py::handle keep,
                                    py::handle stream, py::handle device) {
  constexpr const char* kOp = "submit_copy";
  forbid_in_capture(kOp, "the copy would not be part of a replay");
  const TransferType type = type_from_name(name, kOp);
  if (bytes > 0 && (dst == 0 || src == 0))
    throw InvalidArgument(cat(kOp, ": ", dst == 0 ? "dst_ptr" : "src_ptr", " is 0"));
  const auto on = stream_from_python(stream, device_from_python(device, kOp), kOp);
  auto completion = std::make_shared<Completion>(keep_alive(keep));
  const WithoutGil released;
  auto engine = device::transfers(on->device());
  runtime::TransferEngine::SubmitOptions options;
  options.priority = priority;
  options.on_done = [completion](const runtime::TransferOp&) { completion->finish(); };
  auto future = engine->submit(type, dst, src, bytes, on, std::move(options));
  return std::make_shared<Future>(Future{std::move(engine), std::move(future), completion});
}

py::dict describe(const runtime::TransferOp& op) {
  py::dict facts;
  facts["id"] = op.id;
  facts["type"] = runtime::to_string(op.type);
  facts["state"] = runtime::to_string(op.state);
  facts["bytes"] = op.size_bytes;
  facts["priority"] = op.priority;
  facts["wait_s"] = op.wait_time_s();
  facts["duration_s"] = op.duration_s();
  facts["gb_s"] = op.bandwidth_gb_s();
  facts["error"] = op.error;
  return facts;
}

py::dict describe(const runtime::LaneStats& lane) {
  py::dict facts;
  facts["submitted"] = lane.num_submitted;
  facts["completed"] = lane.num_completed;
  facts["failed"] = lane.num_failed;
  facts["cancelled"] = lane.num_cancelled;
  facts["chunks"] = lane.num_chunks;
  facts["bytes"] = lane.copied_bytes;
  facts["staged_bytes"] = lane.staged_bytes;
  facts["busy_s"] = static_cast<double>(lane.busy_ns) * 1e-9;
  facts["gb_s"] = lane.gb_s();
  facts["wait_s"] = static_cast<double>(lane.wait_ns) * 1e-9;
  facts["max_wait_s"] = static_cast<double>(lane.max_wait_ns) * 1e-9;
  facts["queue_depth"] = lane.queue_depth;
  facts["max_queue_depth"] = lane.max_queue_depth;
  facts["in_flight_bytes"] = lane.in_flight_bytes;
  return facts;
}

py::dict stats(py::handle device) {
  const Device where = device_from_python(device, "transfer.stats");
  runtime::TransferEngine::Stats now;
  {
    const WithoutGil released;
    if (const auto engine = device::existing_transfers(where)) now = engine->engine().stats();
  }
  py::dict all;
  for (const auto type : {TransferType::kH2D, TransferType::kD2H, TransferType::kD2D})
    all[runtime::to_string(type)] = describe(now.of(type));
  return all;
}

void configure(std::size_t chunk_bytes, std::size_t max_in_flight_bytes, unsigned copy_threads,
               py::handle device) {
  const Device where = device_from_python(device, "transfer.configure");
  runtime::TransferEngine::Options options;
  if (chunk_bytes != 0) options.chunk_bytes = chunk_bytes;
  if (max_in_flight_bytes != 0) options.max_in_flight_bytes = max_in_flight_bytes;
  if (copy_threads != 0) options.num_copy_threads = copy_threads;
  if (options.chunk_bytes < 256 || options.max_in_flight_bytes < options.chunk_bytes)
    throw InvalidArgument(cat("transfer.configure: chunk_bytes is ", options.chunk_bytes,
                              ", max_in_flight_bytes ", options.max_in_flight_bytes,
                              "; expected at least 256, and room for a chunk"));
  device::configure_transfers(where, options);
}

void bind_future(py::module_& m) {
  py::class_<Future, std::shared_ptr<Future>>(m, "TransferFuture",
                                              "A copy in the background and its outcome.")
      .def_property_readonly("id", [](const Future& f) { return f.future.id(); })
      .def(
          "done", [](const Future& f) { return f.done(); },
          "True when it has ended: completed, failed or cancelled.")
      .def(
          "wait",
          [](Future& f) {
            forbid_in_capture("TransferFuture.wait", "the work is only being recorded");
            f.wait();
          },
          "Returns when the copy is complete; raises what it failed with.")
      .def(
          "cancel",
          [](Future& f) {
            const WithoutGil released;
            return f.future.cancel();
          },
          "Stops it between chunks. True when it will not complete: the destination may then be "
          "written in part. False when it is too late.")
      .def(
          "facts", [](const Future& f) { return describe(f.future.result()); },
          "State, times and rate of a copy that is done.")
      .def(
          "add_done_callback",
          [](Future& f, const py::object& callback) { f.completion->add(callback); },
          py::arg("callback"),
          "Calls callback() once the copy is done: on a thread of the engine, or now.");
}

}  // namespace

void bind_transfer(py::module_& m) {
  bind_future(m);
  m.def(
      "submit_h2d",
      [](const Array& array, py::handle host, int priority, py::handle stream) {
        return submit(TransferType::kH2D, array, host, priority, stream, "submit_h2d");
      },
      py::arg("array"), py::arg("host"), py::kw_only(), py::arg("priority") = 0,
      py::arg("stream") = py::none(),
      "Copies a NumPy array into an array in the background, after the array's work so far.");
  m.def(
      "submit_d2h",
      [](const Array& array, py::handle host, int priority, py::handle stream) {
        return submit(TransferType::kD2H, array, host, priority, stream, "submit_d2h");
      },
      py::arg("array"), py::arg("host"), py::kw_only(), py::arg("priority") = 0,
      py::arg("stream") = py::none(),
      "Copies an array into a NumPy array in the background, after the array's work so far.");
  m.def("submit_copy", submit_copy, py::arg("type"), py::arg("dst_ptr"), py::arg("src_ptr"),
        py::arg("size_bytes"), py::kw_only(), py::arg("priority") = 0, py::arg("keep") = py::none(),
        py::arg("stream") = py::none(), py::arg("device") = py::none(),
        "Copies between two addresses in the background, after the stream's work so far.");
  m.def("transfer_stats", stats, py::arg("device") = py::none(),
        "Counters of the transfer engine, by direction.");
  m.def("transfer_configure", configure, py::arg("chunk_bytes") = 0,
        py::arg("max_in_flight_bytes") = 0, py::arg("copy_threads") = 0,
        py::arg("device") = py::none(),
        "Settings of the transfer engine, before its first transfer; 0 keeps the default.");
}

}  // namespace gpk::bind
