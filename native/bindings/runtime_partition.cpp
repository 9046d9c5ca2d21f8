// Partitions of one device.
#include "bindings/runtime_bind.h"
#include "runtime/sharing/partition_compute.h"
#include "runtime/sharing/partition_ledger.h"
#include "runtime/sharing/partition_manager.h"

namespace gpk::bind {
namespace {

using runtime::Partition;
using runtime::PartitionConfig;
using runtime::PartitionLimits;
using runtime::PartitionManager;
using runtime::PartitionStats;
using runtime::PartitionUsage;

PartitionLimits make_limits(std::size_t memory_quota, double compute_share, double bandwidth_share,
                            std::size_t max_streams, std::size_t max_pending_kernels,
                            std::size_t max_pending_transfers) {
  PartitionLimits limits;
  limits.max_streams = max_streams;
  limits.max_pending_kernels = max_pending_kernels;
  limits.max_pending_transfers = max_pending_transfers;
  return limits.memory(memory_quota).compute(compute_share).bandwidth(bandwidth_share);
}

void bind_limits(py::module_& m) {
  using L = PartitionLimits;
  py::class_<L>(m, "PartitionLimits", "What a partition may use.")
      .def(py::init(&make_limits), py::arg("memory_quota") = 0, py::arg("compute_share") = 1.0,
           py::arg("bandwidth_share") = 1.0, py::arg("max_streams") = 16,
           py::arg("max_pending_kernels") = 1024, py::arg("max_pending_transfers") = 256)
      .def_static("with_memory", &L::with_memory, py::arg("quota"), "Only a memory quota.")
      .def_static("with_compute", &L::with_compute, py::arg("share"), "Only a compute share.")
      .def("memory", &L::memory, py::arg("quota"), "A copy with another quota in bytes.")
      .def("compute", &L::compute, py::arg("share"), "A copy with another share, clamped to 0..1.")
      .def("bandwidth", &L::bandwidth, py::arg("share"),
           "A copy with another share, clamped to 0..1.")
      .def_readonly("memory_quota", &L::memory_quota_bytes, "Bytes; 0: none of its own.")
      .def_readonly("compute_share", &L::compute_share, "0..1.")
      .def_readonly("bandwidth_share", &L::bandwidth_share, "0..1.")
      .def_readonly("max_streams", &L::max_streams, "Streams at once.")
      .def_readonly("max_pending_kernels", &L::max_pending_kernels, "Kernels at once.")
      .def_readonly("max_pending_transfers", &L::max_pending_transfers, "Transfers at once.");
  using U = PartitionUsage;
  py::class_<U>(m, "PartitionUsage", "What a partition uses.")
      .def_readonly("memory_used", &U::memory_used_bytes, "Bytes.")
      .def_readonly("peak_memory", &U::peak_memory_bytes, "Bytes.")
      .def_readonly("active_streams", &U::active_streams, "Now.")
      .def_readonly("pending_kernels", &U::pending_kernels, "Now.")
      .def_readonly("pending_transfers", &U::pending_transfers, "Now.")
      .def_readonly("total_kernels", &U::total_kernels, "So far.")
      .def_readonly("total_transfers", &U::total_transfers, "So far.")
      .def_readonly("transferred_bytes", &U::transferred_bytes, "So far.")
      .def_property_readonly("compute_time_ms", &U::compute_time_ms, "So far.")
      .def_readonly("refused_count", &U::num_refused, "Requests over a limit.");
}

void bind_partition_values(py::module_& m) {
  using P = Partition;
  py::class_<P>(m, "Partition", "A part of the GPU as it was when asked for.")
      .def_readonly("id", &P::id, "The caller's id.")
      .def_readonly("name", &P::name, "For people.")
      .def_readonly("limits", &P::limits, "What it may use.")
      .def_readonly("usage", &P::usage, "What it uses.")
      .def_property_readonly(
          "tasks",
          [](const P& p) { return std::vector<std::string>(p.tasks.begin(), p.tasks.end()); },
          "Ids of its tasks.")
      .def_readonly("enabled", &P::enabled, "False: it gets nothing.")
      .def("memory_utilization", &P::memory_utilization, "Used over quota; 0 without a quota.");
  using C = PartitionConfig;
  py::class_<C>(m, "PartitionConfig", "The device that is shared.")
      .def(py::init([](std::size_t memory, bool allow, double ratio) {
             return C{memory, allow, ratio};
           }),
           py::arg("total_memory") = C().total_memory_bytes, py::arg("allow_overcommit") = false,
           py::arg("overcommit_ratio") = 1.0)
      .def_readonly("total_memory", &C::total_memory_bytes, "Bytes.")
      .def_readonly("allow_overcommit", &C::allow_overcommit, "Sums may pass the device.")
      .def_readonly("overcommit_ratio", &C::overcommit_ratio, "How far; 1.0: no bound.");
  using S = PartitionStats;
  py::class_<S>(m, "PartitionStats", "What is given away; memory in bytes.")
      .def_readonly("partition_count", &S::partition_count, "Partitions.")
      .def_readonly("active_partitions", &S::active_partitions, "Enabled ones.")
      .def_readonly("total_memory_allocated", &S::total_memory_allocated_bytes, "All quotas.")
      .def_readonly("total_compute_allocated", &S::total_compute_allocated, "All shares.")
      .def_readonly("total_bandwidth_allocated", &S::total_bandwidth_allocated, "All shares.")
      .def_readonly("available_memory", &S::available_memory_bytes, "Left for quotas.")
      .def_readonly("available_compute", &S::available_compute, "Left for shares.")
      .def_readonly("available_bandwidth", &S::available_bandwidth, "Left for shares.")
      .def_readonly("memory_used", &S::memory_used_bytes, "By all partitions.");
}

void bind_sm_split(py::module_& m) {
  using runtime::SmShare;
  using runtime::SmSplit;
  py::class_<SmShare>(m, "SmShare", "The multiprocessors of one part.")
      .def_readonly("asked_sms", &SmShare::asked_sms, "Share times all.")
      .def_readonly("given_sms", &SmShare::given_sms, "Whole granules.")
      .def_readonly("asked_share", &SmShare::asked_share, "As asked for.")
      .def_readonly("given_share", &SmShare::given_share, "What that makes.")
      .def_readonly("takes_rest", &SmShare::takes_rest, "It also gets what makes no granule.");
  py::class_<SmSplit>(m, "SmSplit", "Multiprocessors by shares.")
      .def_readonly("parts", &SmSplit::parts, "In the order of the shares.")
      .def_readonly("unassigned_sms", &SmSplit::unassigned_sms, "Nobody's.")
      .def_readonly("max_error", &SmSplit::max_error, "Largest |given - asked| share.");
  m.def(
      "split_sms",
      [](std::size_t total, std::size_t granule, const std::vector<double>& shares) {
        return runtime::split_sms(total, granule, shares);
      },
      py::arg("total_sms"), py::arg("granule_sms"), py::arg("shares"),
      "From compute shares to whole groups of multiprocessors.");
}

const char* charge_name(PartitionManager::Charge charge) {
  switch (charge) {
    case PartitionManager::Charge::kPartitionFull: return "partition full";
    case PartitionManager::Charge::kDeviceFull: return "device full";
    case PartitionManager::Charge::kGranted: break;
  }
  return "granted";
}

}  // namespace

void bind_runtime_partition(py::module_& m) {
  bind_limits(m);
  bind_partition_values(m);
  bind_sm_split(m);
  using M = PartitionManager;
  const auto id = py::arg("id");
  py::class_<M, std::shared_ptr<M>>(m, "PartitionManager",
                                    "The partitions of one device and their accounts.")
      .def(py::init([](const std::optional<PartitionConfig>& config) {
             return std::make_shared<M>(config.value_or(PartitionConfig()));
           }),
           py::arg("config") = py::none())
      .def("create_partition", &M::create_partition, id, py::arg("name"), py::arg("limits"),
           Unlocked(), "A new partition; the first becomes the default.")
      .def("delete_partition", &M::delete_partition, id, Unlocked(),
           "Removes and returns it. RuntimeError while it is in use.")
      .def("get", &M::get, id, Unlocked(), "The partition as it is now, or None.")
      .def("set_enabled", &M::set_enabled, id, py::arg("enabled"), Unlocked(),
           "A disabled partition gets nothing more.")
      .def("assign_task", &M::assign_task, py::arg("task_id"), py::arg("partition_id"), Unlocked(),
           "Moves a task to a partition.")
      .def("unassign_task", &M::unassign_task, py::arg("task_id"), Unlocked(),
           "Back to the default; False when it was there.")
      .def("get_task_partition", &M::get_task_partition, py::arg("task_id"), Unlocked(),
           "The task's partition, or the default.")
      .def("set_default", &M::set_default, id, Unlocked(), "Where tasks without one belong.")
      .def("default_partition", &M::default_partition, Unlocked(), "Its id, or None.")
      .def("partition_ids", &M::partition_ids, Unlocked(), "Oldest first.")
      .def("partitions", &M::partitions, Unlocked(), "As they are now, oldest first.")
      .def("stats", &M::stats, Unlocked(), "The figures now.")
      .def("clear", &M::clear, Unlocked(), "Removes all. RuntimeError while one is in use.")
      .def(
          "charge_memory",
          [](M& self, std::string_view which, std::size_t bytes) {
            return std::string(charge_name(self.charge_memory(which, bytes)));
          },
          id, py::arg("size"), Unlocked(), "\"granted\", \"partition full\" or \"device full\".")
      .def("refund_memory", &M::refund_memory, id, py::arg("size"), Unlocked(), "Gives back.")
      .def("open_stream", &M::open_stream, id, Unlocked(), "False over the limit.")
      .def("close_stream", &M::close_stream, id, Unlocked(), "Gives back.")
      .def("begin_kernel", &M::begin_kernel, id, Unlocked(), "False over the limit.")
      .def(
          "end_kernel",
          [](M& self, std::string_view which, double ms) {
            self.end_kernel(which, nanoseconds(ms, kNsPerMs, "end_kernel: compute_ms"));
          },
          id, py::arg("compute_ms"), Unlocked(), "Gives back and counts the time.")
      .def("begin_transfer", &M::begin_transfer, id, Unlocked(), "False over the limit.")
      .def("end_transfer", &M::end_transfer, id, py::arg("size"), Unlocked(),
           "Gives back and counts the bytes.")
      .def("available_memory", &M::available_memory_bytes, id, Unlocked(),
           "The largest charge that fits now, in bytes.")
      .def("memory_limit", &M::memory_limit_bytes, id, Unlocked(),
           "The largest charge that could ever fit, in bytes.")
      .def_property_readonly("config", &M::config, "The device that is shared.");
}

}  // namespace gpk::bind
