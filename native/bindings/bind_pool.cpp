// The memory pool: figures, limits, and which arrays may leave the device.
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "core/device_pool.h"
#include "core/error.h"
#include "core/graph.h"
#include "core/stream.h"
#include "core/text.h"

namespace gpk::bind {
namespace {

runtime::Pool& pool_from_python(py::handle device, const char* op) {
  return device_pool(device_from_python(device, op));
}

py::dict memory_stats(py::handle device) {
  const runtime::PoolStats s = pool_from_python(device, "memory.stats").stats();
  py::dict d;
  d["limit"] = s.quota_bytes;
  d["used"] = s.used_bytes;
  d["cached"] = s.cached_bytes;
  d["reserved"] = s.reserved_bytes;
  d["pending"] = s.pending_bytes;
  d["peak_used"] = s.peak_used_bytes;
  d["peak_reserved"] = s.peak_reserved_bytes;
  d["largest_free"] = s.largest_free_bytes;
  d["evicted"] = s.evicted_bytes;
  d["host"] = s.host_bytes;
  d["blocks"] = s.num_blocks;
  d["allocations"] = s.num_allocations;
  d["reuses"] = s.num_reuses;
  d["driver_calls"] = s.num_driver_calls;
  d["evictions"] = s.num_evictions;
  d["restores"] = s.num_restores;
  d["evicted_total"] = s.evicted_total_bytes;
  d["restored_total"] = s.restored_total_bytes;
  return d;
}

const char* name_of(runtime::PoolPiece::Kind kind) {
  switch (kind) {
    case runtime::PoolPiece::Kind::kUsed: return "used";
    case runtime::PoolPiece::Kind::kPending: return "pending";
    case runtime::PoolPiece::Kind::kCached: return "cached";
    case runtime::PoolPiece::Kind::kEvicted: return "evicted";
    case runtime::PoolPiece::Kind::kHole: return "free";
  }
  return "";
}

py::list memory_snapshot(py::handle device) {
  const runtime::PoolSnapshot pieces = pool_from_python(device, "memory.snapshot").snapshot();
  py::list result;
  for (const runtime::PoolPiece& piece : pieces) {
    py::dict d;
    d["kind"] = name_of(piece.kind);
    d["address"] = piece.address;
    d["bytes"] = piece.bytes;
    result.append(std::move(d));
  }
  return result;
}

std::size_t trim(py::handle device) {
  runtime::Pool& pool = pool_from_python(device, "trim");
  const WithoutGil released;
  return pool.trim();
}

void set_memory_limit(std::size_t bytes, py::handle device) {
  runtime::Pool& pool = pool_from_python(device, "memory.set_limit");
  const WithoutGil released;
  try {
    pool.set_quota(bytes);
  } catch (const runtime::PoolOutOfMemory& error) {
    throw_out_of_memory(error, "memory.set_limit");
  }
}

// The pool and the block of an array. Throws where it has none of its own.
struct Owned {
  runtime::Pool& pool;
  runtime::PoolBlock* block;
};

Owned owned(const Array& array, const char* op) {
  if (array.buffer()->block() == nullptr)
    throw InvalidArgument(cat(op, ": the array is empty, or its memory belongs to someone else"));
  return {*array.buffer()->pool(), array.buffer()->block()};
}

// Runs `call(pool, block)` without the GIL, with the errors of core.
template <class Call>
auto with_block(const Array& array, const char* op, const Call& call) {
  const Owned own = owned(array, op);
  forbid_in_capture(op, "memory is moved now, the work is only being recorded");
  const WithoutGil released;
  try {
    return call(own.pool, own.block);
  } catch (const runtime::PoolOutOfMemory& error) {
    throw_out_of_memory(error, op);
  }
}

void bind_eviction(py::module_& m) {
  const auto array = py::arg("array");
  m.def(
      "memory_evictable",
      [](const Array& a, bool evictable) {
        return with_block(a, "memory.evictable", [&](runtime::Pool& pool, auto* block) {
          return pool.set_evictable(block, evictable);
        });
      },
      array, py::arg("evictable") = true,
      "Lets the array leave the device under pressure, or not. True when that can free memory.");
  m.def(
      "memory_evict",
      [](const Array& a) {
        return with_block(a, "memory.evict",
                          [](runtime::Pool& pool, auto* block) { return pool.evict(block); });
      },
      array, "Moves the array to host memory now; the bytes of device memory freed.");
  m.def(
      "memory_restore",
      [](const Array& a) {
        const auto& stream = current_stream(a.device());
        with_block(a, "memory.restore", [&](runtime::Pool& pool, auto* block) {
          pool.restore(block, pool_stream(*stream));
        });
      },
      array, "Brings the array back to the same address, in the order of the current stream.");
  m.def(
      "memory_prefetch",
      [](const Array& a) {
        return with_block(a, "memory.prefetch",
                          [](runtime::Pool& pool, auto* block) { return pool.prefetch(block); });
      },
      array, "Starts to bring the array back beside all streams. False: there is no room.");
  m.def(
      "memory_touch", [](const Array& a) {
        const Owned own = owned(a, "memory.touch");
        own.pool.touch(own.block);
      },
      array, "Makes the array the most recently used one.");
  m.def(
      "memory_pin",
      [](const Array& a) {
        with_block(a, "memory.pin", [](runtime::Pool& pool, auto* block) { pool.pin(block); });
      },
      array, "Keeps the array on the device until as many unpin() calls.");
  m.def(
      "memory_unpin", [](const Array& a) {
        const Owned own = owned(a, "memory.unpin");
        own.pool.unpin(own.block);
      },
      array, "Takes one pin() back.");
  m.def(
      "memory_is_evicted",
      [](const Array& a) {
        const Owned own = owned(a, "memory.is_evicted");
        return own.pool.is_evicted(own.block);
      },
      array, "True while the array's bytes are in host memory.");
}

}  // namespace

void bind_pool(py::module_& m) {
  const auto device = py::arg("device") = py::none();
  m.def("memory_stats", memory_stats, device, "Figures of the device's memory pool, in bytes.");
  m.def("memory_snapshot", memory_snapshot, device,
        "The pieces of the pool in address order: kind, address, bytes.");
  m.def("trim", trim, device, "Gives cached device memory back to the driver; bytes freed.");
  m.def("set_memory_limit", set_memory_limit, py::arg("bytes"), device,
        "The most physical memory the pool may hold; 0: no limit. Evicts and trims as needed.");
  bind_eviction(m);
  set_collect_hook([] {
    if (Py_IsInitialized() == 0) return;
    const py::gil_scoped_acquire gil;
    PyGC_Collect();
  });
}

}  // namespace gpk::bind
