// Long kernels in slices.
#include "bindings/runtime_bind.h"
#include "runtime/sharing/slicing.h"

namespace gpk::bind {
namespace {

using runtime::SliceConfig;
using runtime::SliceInfo;
using runtime::SliceScheduler;
using runtime::SliceStats;
using BlockDims = std::array<std::uint32_t, 3>;

void bind_slice_values(py::module_& m) {
  using C = SliceConfig;
  py::class_<C>(m, "SliceConfig", "How kernels are cut.")
      .def(py::init([](std::uint64_t items, double ms, std::uint64_t low, std::uint64_t high,
                       bool adaptive) { return C{items, ms, low, high, adaptive}; }),
           py::arg("max_items_per_slice") = 65536, py::arg("max_duration_ms") = 1.0,
           py::arg("min_slices") = 1, py::arg("max_slices") = 256, py::arg("adaptive") = true)
      .def_readonly("max_items_per_slice", &C::max_items_per_slice, "Items.")
      .def_readonly("max_duration_ms", &C::max_duration_ms, "Of one slice.")
      .def_readonly("min_slices", &C::min_slices, "Of one kernel.")
      .def_readonly("max_slices", &C::max_slices, "Of one kernel.")
      .def_readonly("adaptive", &C::adaptive, "Kernels with slow slices are cut finer.");
  using I = SliceInfo;
  py::class_<I>(m, "SliceInfo", "One slice of a kernel.")
      .def_readonly("kernel_id", &I::kernel_id, "Of this submission, from 1.")
      .def_readonly("kernel_handle", &I::kernel_handle, "As submitted.")
      .def_readonly("slice_index", &I::slice_index, "From 0.")
      .def_readonly("slice_id", &I::slice_index, "The same as slice_index.")
      .def_readonly("total_slices", &I::total_slices, "Of the kernel.")
      .def_readonly("offset", &I::offset_items, "Its first item.")
      .def_readonly("count", &I::num_items, "Its items.")
      .def_property_readonly(
          "grid", [](const I& i) { return std::tuple(i.grid_x, 1u, 1u); }, "Blocks for its items.")
      .def_property_readonly(
          "block", [](const I& i) { return std::tuple(i.block[0], i.block[1], i.block[2]); },
          "Threads of a block.")
      .def_readonly("shared_mem", &I::shared_mem_bytes, "Bytes.")
      .def_property_readonly(
          "task_id",
          [](const I& i) { return i.task_id.empty() ? std::nullopt : std::optional(i.task_id); },
          "The task it belongs to, or None.")
      .def_readonly("priority", &I::priority, "Higher is earlier.")
      .def_property_readonly("is_last", &I::is_last, "The kernel's last slice.");
  using S = SliceStats;
  py::class_<S>(m, "SliceStats", "Figures of a SliceScheduler.")
      .def_readonly("total_kernels", &S::num_kernels, "Submitted.")
      .def_readonly("completed_kernels", &S::num_kernels_completed, "So far.")
      .def_readonly("total_slices", &S::num_slices, "Submitted.")
      .def_readonly("completed_slices", &S::num_slices_completed, "So far.")
      .def_readonly("pending_slices", &S::pending_slices, "Now.")
      .def_readonly("pending_kernels", &S::pending_kernels, "Now.")
      .def_readonly("total_time_ms", &S::total_ms, "Of completed slices.")
      .def_readonly("max_slice_ms", &S::max_ms, "Of completed slices.")
      .def_property_readonly("avg_slice_ms", &S::avg_ms, "Of completed slices.");
}

}  // namespace

void bind_runtime_slicing(py::module_& m) {
  bind_slice_values(m);
  using S = SliceScheduler;
  const auto handle = py::arg("kernel_handle");
  const auto items = py::arg("total_items");
  const auto block = py::arg("block") = py::make_tuple(256, 1, 1);
  const auto shared = py::arg("shared_mem") = 0;
  using Block = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  const auto dims = [](const Block& b) {
    return BlockDims{std::get<0>(b), std::get<1>(b), std::get<2>(b)};
  };
  py::class_<S>(m, "SliceScheduler", "Hands out slices of kernels in turn.")
      .def(py::init([](const std::optional<SliceConfig>& config) {
             return std::make_unique<S>(config.value_or(SliceConfig()));
           }),
           py::arg("config") = py::none())
      .def(
          "submit",
          [dims](S& s, std::uint64_t h, std::uint64_t n, const Block& b, std::uint32_t bytes) {
            return s.submit(h, n, dims(b), bytes);
          },
          handle, items, block, shared, "Cuts a kernel; the number of slices.")
      .def(
          "submit_for_task",
          [dims](S& s, const std::string& task, std::uint64_t h, std::uint64_t n, const Block& b,
                 std::uint32_t bytes,
                 int priority) { return s.submit_for_task(task, h, n, dims(b), bytes, priority); },
          py::arg("task_id"), handle, items, block, shared, py::arg("priority") = 0,
          "The same for a task, with a priority.")
      .def("get_next_slice", &S::get_next_slice, "The next slice to run, or None.")
      .def("complete_slice", &S::complete_slice, py::arg("ms"),
           "The slice handed out first took so long. False when none is out.")
      .def("pending_slices", &S::pending_slices, "Not completed.")
      .def("pending_kernels", &S::pending_kernels, "With slices that are not completed.")
      .def("stats", &S::stats, "The figures now.")
      .def("clear", &S::clear, "Forgets everything.")
      .def_property_readonly("config", &S::config, "How kernels are cut.");
}

}  // namespace gpk::bind
