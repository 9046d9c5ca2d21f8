// The queue of transfers with the interface of version 0.2: it orders and counts.
#include "bindings/runtime_bind.h"
#include "runtime/transfer/transfer.h"

namespace gpk::bind {
namespace {

using runtime::TransferId;
using runtime::TransferOp;
using runtime::TransferQueue;
using runtime::TransferState;
using runtime::TransferStats;
using runtime::TransferType;

struct TransferQueueObject {
  explicit TransferQueueObject(std::size_t max_concurrent) : queue(clock, max_concurrent) {}
  runtime::SteadyClock clock;
  TransferQueue queue;
};

enum class TransferStream { kD2D = 0, kH2D = 1, kD2H = 2 };

void bind_transfer_enums(py::module_& m) {
  number_enum<TransferType>(m, "TransferType", "The direction of a copy.")
      .value("H2D", TransferType::kH2D)
      .value("D2H", TransferType::kD2H)
      .value("D2D", TransferType::kD2D);
  number_enum<TransferState>(m, "TransferState", "How far a copy got.")
      .value("Queued", TransferState::kQueued)
      .value("InProgress", TransferState::kInProgress)
      .value("Completed", TransferState::kCompleted)
      .value("Failed", TransferState::kFailed)
      .value("Cancelled", TransferState::kCancelled);
  number_enum<TransferStream>(m, "StreamType", "The stream of a direction.")
      .value("D2D", TransferStream::kD2D)
      .value("H2D", TransferStream::kH2D)
      .value("D2H", TransferStream::kD2H);
}

void bind_transfer_values(py::module_& m) {
  using T = TransferOp;
  py::class_<T>(m, "TransferOp", "A transfer as it was when asked for.")
      .def_readonly("id", &T::id, "From 1.")
      .def_readonly("type", &T::type, "The direction.")
      .def_readonly("transfer_type", &T::type, "The same as type.")
      .def_readonly("state", &T::state, "How far it got.")
      .def_readonly("size", &T::size_bytes, "Bytes.")
      .def_readonly("src_ptr", &T::src, "Where from.")
      .def_readonly("dst_ptr", &T::dst, "Where to.")
      .def_readonly("priority", &T::priority, "Higher is earlier.")
      .def_property_readonly(
          "stream",
          [](const T& t) { return static_cast<TransferStream>(runtime::transfer_stream(t.type)); },
          "The stream of its direction.")
      .def_property_readonly(
          "error",
          [](const T& t) { return t.error.empty() ? std::nullopt : std::optional(t.error); },
          "Why it failed, or None.")
      .def("wait_time", &T::wait_time_s, "Seconds from enqueue to start; 0 while not known.")
      .def("duration", &T::duration_s, "Seconds from start to end; 0 while not known.")
      .def("bandwidth_gbps", &T::bandwidth_gb_s, "10**9 bytes per second; 0 while not known.");
  using S = TransferStats;
  const auto average = [](std::int64_t sum_ns, std::uint64_t count) {
    return count == 0 ? 0.0 : seconds(sum_ns) / static_cast<double>(count);
  };
  py::class_<S>(m, "TransferStats", "Figures of an AsyncTransferEngine.")
      .def_property_readonly(
          "total_transfers", [](const S& s) { return s.total().num_enqueued; }, "Ever enqueued.")
      .def_property_readonly(
          "queued_count", [](const S& s) { return s.total().num_queued; }, "Now.")
      .def_property_readonly(
          "pending_count", [](const S& s) { return s.total().num_queued; }, "The same.")
      .def_property_readonly(
          "in_progress_count", [](const S& s) { return s.total().num_in_progress; }, "Now.")
      .def_property_readonly(
          "completed_count", [](const S& s) { return s.total().num_completed; }, "So far.")
      .def_readonly("failed_count", &S::num_failed, "So far.")
      .def_readonly("cancelled_count", &S::num_cancelled, "So far.")
      .def_property_readonly(
          "total_bytes", [](const S& s) { return s.total().completed_bytes; }, "Of completed ones.")
      .def_property_readonly(
          "h2d_bytes", [](const S& s) { return s.of(TransferType::kH2D).completed_bytes; },
          "Of completed ones.")
      .def_property_readonly(
          "d2h_bytes", [](const S& s) { return s.of(TransferType::kD2H).completed_bytes; },
          "Of completed ones.")
      .def_property_readonly(
          "d2d_bytes", [](const S& s) { return s.of(TransferType::kD2D).completed_bytes; },
          "Of completed ones.")
      .def_property_readonly(
          "avg_bandwidth_gbps", [](const S& s) { return s.total().bandwidth_gb_s(); },
          "10**9 bytes per second of the completed ones.")
      .def_property_readonly(
          "avg_wait_time",
          [average](const S& s) {
            const auto all = s.total();
            return average(all.wait_ns, all.num_completed + all.num_in_progress);
          },
          "Seconds.");
}

}  // namespace

void bind_runtime_transfer(py::module_& m) {
  bind_transfer_enums(m);
  bind_transfer_values(m);
  using E = TransferQueueObject;
  const auto id = py::arg("transfer_id");
  const auto size = py::arg("size");
  const auto enqueue = [](TransferType type) {
    return [type](E& e, std::uint64_t from, std::uint64_t to, std::size_t bytes) {
      return e.queue.enqueue(type, from, to, bytes);
    };
  };
  py::class_<E>(m, "AsyncTransferEngine", "Transfers in order, by direction and priority.")
      .def(py::init<std::size_t>(), py::arg("max_concurrent") = 4)
      .def("enqueue_h2d", enqueue(TransferType::kH2D), py::arg("host_ptr"), py::arg("device_ptr"),
           size, "Host to device; the id.")
      .def("enqueue_d2h", enqueue(TransferType::kD2H), py::arg("device_ptr"), py::arg("host_ptr"),
           size, "Device to host; the id.")
      .def("enqueue_d2d", enqueue(TransferType::kD2D), py::arg("src_ptr"), py::arg("dst_ptr"), size,
           "Device to device; the id.")
      .def(
          "enqueue_with_priority",
          [](E& e, const std::string& type, std::uint64_t src, std::uint64_t dst, std::size_t bytes,
             int priority) {
            return e.queue.enqueue(runtime::transfer_type_from_name(type), src, dst, bytes,
                                   priority);
          },
          py::arg("transfer_type"), py::arg("src_ptr"), py::arg("dst_ptr"), size,
          py::arg("priority"), "The same for \"h2d\", \"d2h\" or \"d2d\".")
      .def(
          "get_ready_transfers", [](E& e, std::size_t max) { return e.queue.get_ready(max); },
          py::arg("max_transfers") = 1, "Those that may start; they are in progress afterwards.")
      .def(
          "start_transfer", [](E& e, TransferId i) { return e.queue.start(i); }, id,
          "Queued to in progress.")
      .def(
          "complete_transfer", [](E& e, TransferId i) { return e.queue.complete(i); }, id,
          "In progress to completed.")
      .def(
          "fail_transfer",
          [](E& e, TransferId i, const std::string& error) { return e.queue.fail(i, error); }, id,
          py::arg("error") = "", "In progress to failed.")
      .def(
          "cancel_transfer", [](E& e, TransferId i) { return e.queue.cancel(i); }, id,
          "Queued to cancelled.")
      .def(
          "start", [](E& e, TransferId i) { return e.queue.start(i); }, id, "start_transfer.")
      .def(
          "complete", [](E& e, TransferId i) { return e.queue.complete(i); }, id,
          "complete_transfer.")
      .def(
          "fail",
          [](E& e, TransferId i, const std::string& error) { return e.queue.fail(i, error); }, id,
          py::arg("error") = "", "fail_transfer.")
      .def(
          "cancel", [](E& e, TransferId i) { return e.queue.cancel(i); }, id, "cancel_transfer.")
      .def(
          "get_operation", [](E& e, TransferId i) { return e.queue.get(i); }, id,
          "The transfer as it is now, or None.")
      .def(
          "get_in_progress_for_stream",
          [](E& e, TransferStream s) { return e.queue.in_progress(static_cast<int>(s)); },
          py::arg("stream"), "Ids in progress, ascending.")
      .def(
          "get_in_progress_for_stream", [](E& e, int s) { return e.queue.in_progress(s); },
          py::arg("stream"), "The same for the stream's number: D2D 0, H2D 1, D2H 2.")
      .def(
          "has_pending_work", [](E& e) { return e.queue.has_pending_work(); },
          "Something is queued or in progress.")
      .def(
          "stats", [](E& e) { return e.queue.stats(); }, "The figures now.")
      .def(
          "gc", [](E& e) { return e.queue.gc(); }, "Forgets finished transfers; how many.")
      .def(
          "clear", [](E& e) { e.queue.clear(); }, "Forgets everything.")
      .def_property_readonly(
          "max_concurrent", [](E& e) { return e.queue.max_concurrent(); }, "Per stream.");
}

}  // namespace gpk::bind
