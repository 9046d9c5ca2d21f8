// The memory pool of the 0.2 API, on real memory.
#include <map>
#include <mutex>

#include "bindings/convert.h"
#include "bindings/runtime_bind.h"
#include "core/block_device.h"
#include "runtime/dispatch/kernel_cache_disk.h"
#include "runtime/pool/block_pool.h"

namespace gpk::bind {
namespace {

using runtime::BlockId;

struct BlockView {
  runtime::BlockInfo info;
  std::optional<std::uint64_t> device_ptr;
};

// The pool and what 0.2 let its users attach to blocks: a pointer of their own, and host data.
class BlockPoolObject {
 public:
  BlockPoolObject(std::size_t quota, bool enable_eviction, Device device)
      : device_(make_block_device(device)), pool_(*device_, clock_, quota, enable_eviction) {}

  runtime::BlockPool& pool() noexcept { return pool_; }

  std::optional<BlockView> get(BlockId id) {
    const auto info = pool_.get_block(id);
    if (!info) return std::nullopt;
    BlockView view{*info, std::nullopt};
    if (info->on_gpu) view.device_ptr = info->device_ptr;
    const std::lock_guard lock(mutex_);
    if (const auto note = notes_.find(id); note != notes_.end() && note->second.ptr)
      view.device_ptr = note->second.ptr;
    return view;
  }

  void free(BlockId id) {
    pool_.free(id);
    const std::lock_guard lock(mutex_);
    notes_.erase(id);
  }

  void clear() {
    pool_.clear();
    const std::lock_guard lock(mutex_);
    notes_.clear();
  }

  void set_device_ptr(BlockId id, std::uint64_t ptr) {
    pool_.touch(id);  // refuses unknown ids
    const std::lock_guard lock(mutex_);
    notes_[id].ptr = ptr;
  }

  void set_host_data(BlockId id, const void* data, std::size_t bytes) {
    pool_.write(id, data, bytes);
    const std::lock_guard lock(mutex_);
    notes_[id].host_bytes = bytes;
  }

  void clear_host_data(BlockId id) {
    pool_.touch(id);
    const std::lock_guard lock(mutex_);
    if (const auto note = notes_.find(id); note != notes_.end()) note->second.host_bytes.reset();
  }

  // How many bytes get_host_data gives: what was set, or all of an evicted block.
  std::optional<std::size_t> host_bytes(BlockId id) {
    const std::size_t size = block_size(id);
    {
      const std::lock_guard lock(mutex_);
      const auto note = notes_.find(id);
      if (note != notes_.end() && note->second.host_bytes) return note->second.host_bytes;
    }
    const auto info = pool_.get_block(id);
    if (info && info->is_evicted()) return size;
    return std::nullopt;
  }

  std::size_t block_size(BlockId id) {
    pool_.touch(id);
    return pool_.get_block(id)->size_bytes;
  }

  bool on_gpu(BlockId id) {
    const auto info = pool_.get_block(id);
    if (!info) pool_.touch(id);  // throws
    return info->on_gpu;
  }

 private:
  struct Note {
    std::optional<std::uint64_t> ptr;
    std::optional<std::size_t> host_bytes;
  };
  std::unique_ptr<runtime::BlockDevice> device_;
  runtime::WallClock clock_;
  runtime::BlockPool pool_;
  std::mutex mutex_;
  std::map<BlockId, Note> notes_;
};

py::bytes read_block(BlockPoolObject& self, BlockId id, std::size_t bytes, std::size_t offset) {
  const py::bytes out = py::reinterpret_steal<py::bytes>(
      PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
  if (!out) throw py::error_already_set();
  const WithoutGil released;
  self.pool().read(id, PyBytes_AS_STRING(out.ptr()), bytes, offset);
  return out;
}

std::optional<py::bytes> host_data(BlockPoolObject& self, BlockId id) {
  const auto bytes = self.host_bytes(id);
  if (!bytes) return std::nullopt;
  return read_block(self, id, *bytes, 0);
}

void write_block(BlockPoolObject& self, BlockId id, const py::buffer& data, std::size_t offset) {
  const ByteView view(data, false);
  const WithoutGil released;
  self.pool().write(id, view.data(), view.bytes(), offset);
}

void read_block_into(BlockPoolObject& self, BlockId id, const py::buffer& out, std::size_t offset) {
  const ByteView view(out, true);
  const WithoutGil released;
  self.pool().read(id, view.data(), view.bytes(), offset);
}

void bind_pool_stats(py::module_& m) {
  using S = runtime::BlockPoolStats;
  py::class_<S>(m, "PoolStats", "Figures of a MemoryPool; sizes in bytes.")
      .def_readonly("quota", &S::quota, "The limit of used and cached memory together.")
      .def_readonly("used", &S::used, "Live blocks on the GPU.")
      .def_readonly("cached", &S::cached, "Free lists.")
      .def_readonly("available", &S::available, "quota - used.")
      .def_readonly("allocation_count", &S::allocation_count, "Calls of allocate().")
      .def_readonly("reuse_count", &S::reuse_count, "Allocations served by a free list.")
      .def_readonly("eviction_count", &S::eviction_count, "Blocks that went to host memory.")
      .def_readonly("restore_count", &S::restore_count, "Blocks that came back.")
      .def_readonly("cudamalloc_count", &S::cudamalloc_count, "Allocations served by the device.")
      .def_readonly("active_blocks", &S::active_blocks, "Live blocks, evicted ones among them.")
      .def_readonly("free_blocks", &S::free_blocks, "Blocks in free lists.")
      .def_readonly("evicted_bytes", &S::evicted_bytes, "Live blocks in host memory.");
}

void bind_pool_block(py::module_& m) {
  py::class_<BlockView>(m, "MemoryBlock", "A block as it was when asked for.")
      .def_property_readonly(
          "id", [](const BlockView& b) { return b.info.id; }, "Number in its pool, from 0.")
      .def_property_readonly(
          "size", [](const BlockView& b) { return b.info.size_bytes; }, "Bytes, of the size class.")
      .def_readonly("device_ptr", &BlockView::device_ptr, "Address; None while evicted.")
      .def_property_readonly(
          "on_gpu", [](const BlockView& b) { return b.info.on_gpu; }, "In device memory.")
      .def_property_readonly(
          "on_host", [](const BlockView& b) { return b.info.on_host; }, "In host memory.")
      .def_property_readonly(
          "last_access", [](const BlockView& b) { return seconds(b.info.last_access_ns); },
          "Seconds since 1970.")
      .def(
          "is_available", [](const BlockView& b) { return b.info.is_available(); },
          "True when it is in device memory.")
      .def(
          "is_evicted", [](const BlockView& b) { return b.info.is_evicted(); },
          "True when it is in host memory only.");
}

}  // namespace

void bind_runtime_memory(py::module_& m) {
  using P = BlockPoolObject;
  bind_pool_stats(m);
  bind_pool_block(m);
  const auto id = py::arg("block_id");
  py::class_<P>(m, "MemoryPool", "Blocks of fixed size classes with a quota and LRU eviction.")
      .def(py::init([](std::size_t quota, bool enable_eviction, py::handle device) {
             const Device where = device_from_python(device, "MemoryPool");
             const WithoutGil released;
             return std::make_unique<P>(quota, enable_eviction, where);
           }),
           py::arg("quota"), py::arg("enable_eviction") = false, py::kw_only(),
           py::arg("device") = py::none())
      .def_static("size_class", &runtime::BlockPool::size_class, py::arg("size"),
                  "The size that a request is rounded up to.")
      .def(
          "allocate", [](P& p, std::size_t n) { return p.pool().allocate(n); }, py::arg("size"),
          Unlocked(), "A new block's id. MemoryError when the quota has no room.")
      .def("free", &P::free, id, Unlocked(), "Gives the block to the free list of its class.")
      .def(
          "touch", [](P& p, BlockId i) { p.pool().touch(i); }, id, Unlocked(),
          "Makes it the most recently used one.")
      .def(
          "evict", [](P& p, BlockId i) { p.pool().evict(i); }, id, Unlocked(),
          "Moves the block to host memory.")
      .def(
          "restore", [](P& p, BlockId i) { p.pool().restore(i); }, id, Unlocked(),
          "Moves the block back to device memory.")
      .def("write", write_block, id, py::arg("data"), py::arg("offset") = 0,
           "Copies bytes into the block, wherever it is.")
      .def("read", read_block, id, py::arg("size"), py::arg("offset") = 0,
           "Bytes of the block, wherever it is.")
      .def("read_into", read_block_into, id, py::arg("out"), py::arg("offset") = 0,
           "Fills a writable buffer with bytes of the block.")
      .def("get_block", &P::get, id, Unlocked(), "The block as it is now, or None.")
      .def("set_device_ptr", &P::set_device_ptr, id, py::arg("ptr"), Unlocked(),
           "What get_block reports as its address. The block's own memory stays as it is.")
      .def(
          "set_host_data",
          [](P& p, BlockId i, const py::buffer& data) {
            const ByteView view(data, false);
            const WithoutGil released;
            p.set_host_data(i, view.data(), view.bytes());
          },
          id, py::arg("data"), "Sets the block's first bytes.")
      .def("get_host_data", host_data, id,
           "What set_host_data gave, or all bytes of an evicted block, or None.")
      .def("clear_host_data", &P::clear_host_data, id, Unlocked(), "Forgets set_host_data.")
      .def("get_block_size", &P::block_size, id, Unlocked(), "Bytes, of the size class.")
      .def("is_block_on_gpu", &P::on_gpu, id, Unlocked(), "True when it is in device memory.")
      .def(
          "stats", [](P& p) { return p.pool().stats(); }, Unlocked(), "The figures now.")
      .def(
          "trim", [](P& p) { return p.pool().trim(); }, Unlocked(),
          "Gives cached blocks back to the device; bytes.")
      .def("clear", &P::clear, Unlocked(), "Frees every block.")
      .def_property_readonly(
          "quota", [](P& p) { return p.pool().quota(); }, "The limit in bytes.")
      .def_property_readonly(
          "eviction_enabled", [](P& p) { return p.pool().eviction_enabled(); },
          "Whether allocate() may evict.")
      .def_property_readonly(
          "used", py::cpp_function([](P& p) { return p.pool().stats().used; }, Unlocked()),
          "Bytes of live blocks on the GPU.")
      .def_property_readonly(
          "cached", py::cpp_function([](P& p) { return p.pool().stats().cached; }, Unlocked()),
          "Bytes in free lists.")
      .def_property_readonly(
          "available",
          py::cpp_function([](P& p) { return p.pool().stats().available; }, Unlocked()),
          "quota - used.");
}

}  // namespace gpk::bind
