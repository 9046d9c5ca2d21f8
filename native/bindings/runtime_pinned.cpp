// Page-locked host memory by size classes.
#include "bindings/convert.h"
#include "bindings/runtime_bind.h"
#include "core/block_device.h"
#include "core/error.h"
#include "core/text.h"
#include "runtime/dispatch/kernel_cache_disk.h"
#include "runtime/pool/pinned.h"

namespace gpk::bind {
namespace {

using runtime::PinnedBlock;
using runtime::PinnedPoolConfig;
using runtime::PinnedStats;

std::uint64_t pinned_address(const void* ptr) noexcept {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(ptr));
}

class PinnedObject {
 public:
  PinnedObject(PinnedPoolConfig config, Device device)
      : allocator_(make_pinned_allocator(device)), manager_(*allocator_, clock_, config) {}
  runtime::PinnedMemoryManager& manager() noexcept { return manager_; }

 private:
  std::unique_ptr<runtime::PinnedAllocator> allocator_;
  runtime::WallClock clock_;
  runtime::PinnedMemoryManager manager_;
};

PinnedPoolConfig pinned_config(std::size_t max_size, bool enable_pooling, std::size_t alignment) {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kMaxPinnedAlignment)
    throw InvalidArgument(cat("PinnedPoolConfig: alignment is ", alignment,
                              ", expected a power of two up to ", kMaxPinnedAlignment));
  return {max_size, enable_pooling, alignment};
}

std::pair<bool, std::uint64_t> pinned_freed(const runtime::PinnedMemoryManager::Freed& freed) {
  return {freed.free_now, pinned_address(freed.host_ptr)};
}

void bind_pinned_values(py::module_& m) {
  py::class_<PinnedPoolConfig>(m, "PinnedPoolConfig", "Limits of a PinnedMemoryManager.")
      .def(py::init(&pinned_config), py::arg("max_size") = PinnedPoolConfig().max_size,
           py::arg("enable_pooling") = true, py::arg("alignment") = 256)
      .def_readonly("max_size", &PinnedPoolConfig::max_size, "Bytes, live and pooled.")
      .def_readonly("enable_pooling", &PinnedPoolConfig::enable_pooling, "Keep freed blocks.")
      .def_readonly("alignment", &PinnedPoolConfig::alignment, "Of every block, in bytes.");
  py::class_<PinnedBlock>(m, "PinnedBlock", "A block as it was when asked for.")
      .def_readonly("id", &PinnedBlock::id, "Number in its manager.")
      .def_property_readonly(
          "host_ptr", [](const PinnedBlock& b) { return pinned_address(b.host_ptr); },
          "Host address.")
      .def_readonly("size", &PinnedBlock::size_bytes, "Bytes, of the size class.")
      .def_readonly("is_registered", &PinnedBlock::outside, "Memory of others.")
      .def_property_readonly(
          "task_id",
          [](const PinnedBlock& b) {
            return b.task_id.empty() ? std::nullopt : std::optional(b.task_id);
          },
          "The task it belongs to, or None.")
      .def_property_readonly(
          "last_access", [](const PinnedBlock& b) { return seconds(b.last_access_ns); },
          "Seconds since 1970.");
  py::class_<PinnedStats>(m, "PinnedStats", "Figures of a PinnedMemoryManager; sizes in bytes.")
      .def_readonly("max_size", &PinnedStats::max_size_bytes, "The limit.")
      .def_readonly("current_used", &PinnedStats::used_bytes, "Live blocks of the manager.")
      .def_readonly("pooled_size", &PinnedStats::pooled_bytes, "Free blocks kept for reuse.")
      .def_readonly("registered_size", &PinnedStats::outside_bytes, "Memory of others.")
      .def_readonly("peak_used", &PinnedStats::peak_bytes, "Most used and pooled at a time.")
      .def_readonly("active_blocks", &PinnedStats::num_active, "Live blocks.")
      .def_readonly("pooled_blocks", &PinnedStats::num_pooled, "Free blocks kept for reuse.")
      .def_readonly("allocation_count", &PinnedStats::num_allocations, "Calls of allocate().")
      .def_readonly("reuse_count", &PinnedStats::num_reuses, "Allocations from the pool.")
      .def_readonly("free_count", &PinnedStats::num_frees, "Calls of free().");
}

}  // namespace

void bind_runtime_pinned(py::module_& m) {
  using P = PinnedObject;
  bind_pinned_values(m);
  const auto id = py::arg("block_id");
  const auto task = py::arg("task_id");
  py::class_<P>(m, "PinnedMemoryManager", "Page-locked memory, pooled and tied to tasks.")
      .def(py::init([](std::optional<PinnedPoolConfig> config, py::handle device) {
             const Device where = device_from_python(device, "PinnedMemoryManager");
             const WithoutGil released;
             return std::make_unique<P>(config.value_or(PinnedPoolConfig()), where);
           }),
           py::arg("config") = py::none(), py::kw_only(), py::arg("device") = py::none())
      .def(
          "can_allocate", [](P& p, std::size_t n) { return p.manager().can_allocate(n); },
          py::arg("size"), Unlocked(), "Whether the limit has room.")
      .def(
          "allocate",
          [](P& p, std::size_t n) {
            const auto got = p.manager().allocate(n);
            return std::tuple(got.id, got.size_bytes, got.reused);
          },
          py::arg("size"), Unlocked(), "(id, size of the class, came from the pool).")
      .def(
          "register",
          [](P& p, std::uint64_t i, std::uint64_t ptr, std::size_t size) {
            p.manager().register_block(i, reinterpret_cast<void*>(static_cast<std::uintptr_t>(ptr)),
                                       size);
          },
          id, py::arg("host_ptr"), py::arg("size"), Unlocked(),
          "Memory of others under an id, or in place of a block's own.")
      .def(
          "free", [](P& p, std::uint64_t i) { return pinned_freed(p.manager().free(i)); }, id,
          Unlocked(), "(its owner may free the memory now, host_ptr).")
      .def(
          "associate_task",
          [](P& p, std::uint64_t i, const std::string& t) { p.manager().associate_task(i, t); }, id,
          task, Unlocked(), "Ties the block to a task.")
      .def(
          "get", [](P& p, std::uint64_t i) { return p.manager().get(i); }, id, Unlocked(),
          "The block as it is now, or None.")
      .def(
          "touch", [](P& p, std::uint64_t i) { p.manager().touch(i); }, id, Unlocked(),
          "Notes a use.")
      .def(
          "get_blocks_for_task",
          [](P& p, const std::string& t) { return p.manager().get_blocks_for_task(t); }, task,
          Unlocked(), "Ids of the task's blocks.")
      .def(
          "free_task_blocks",
          [](P& p, const std::string& t) {
            std::vector<std::pair<bool, std::uint64_t>> all;
            for (const auto& freed : p.manager().free_task_blocks(t))
              all.push_back(pinned_freed(freed));
            return all;
          },
          task, Unlocked(), "Frees the task's blocks; what free() returns, by id.")
      .def(
          "stats", [](P& p) { return p.manager().stats(); }, Unlocked(), "The figures now.")
      .def(
          "clear_pool", [](P& p) { return p.manager().clear_pool(); }, Unlocked(),
          "Gives pooled memory back; bytes.")
      .def(
          "clear", [](P& p) { p.manager().clear(); }, Unlocked(), "Frees everything.")
      .def_property_readonly(
          "active_count", [](P& p) { return p.manager().active_count(); }, "Live blocks.")
      .def_property_readonly("config", [](P& p) { return p.manager().config(); }, "The limits.");
}

}  // namespace gpk::bind
