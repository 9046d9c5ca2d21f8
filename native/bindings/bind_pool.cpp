// The memory pool: statistics, limits, and eviction of arrays.
#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "core/config.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/module.h"
#include "core/stream.h"
#include "device/device_pool.h"
#include "device/memory_account.h"
#include "device/pool_buffer.h"
#include "llm/weight_staging.h"

namespace gpk::bind {
namespace {

runtime::Pool& pool_from_python(py::handle device, const char* op) {
  return device::device_pool(device_from_python(device, op));
}

py::dict memory_stats(py::handle device) {
  const runtime::Pool& pool = pool_from_python(device, "memory.stats");
  const runtime::PoolStats s = pool.stats();
  py::dict d;
  d["chunk"] = pool.chunk_bytes();
  d["limit"] = s.quota_bytes;
  d["used"] = s.used_bytes;
  d["cached"] = s.cached_bytes;
  d["reserved"] = s.reserved_bytes;
  d["pending"] = s.pending_bytes;
  d["set_aside"] = s.set_aside_bytes;
  d["peak_used"] = s.peak_used_bytes;
  d["peak_reserved"] = s.peak_reserved_bytes;
  d["largest_free"] = s.largest_free_bytes;
  d["evicted"] = s.evicted_bytes;
  d["host"] = s.host_bytes;
  d["blocks"] = s.num_blocks;
  d["allocations"] = s.num_allocations;
  d["reuses"] = s.num_reuses;
  d["driver_calls"] = s.num_driver_calls;
  d["host_waits"] = s.num_host_waits;
  d["evictions"] = s.num_evictions;
  d["restores"] = s.num_restores;
  d["evicted_total"] = s.evicted_total_bytes;
  d["restored_total"] = s.restored_total_bytes;
  return d;
}

py::dict to_dict(const runtime::PoolAccountStats& stats) {
  py::dict d;
  d["used"] = stats.used_bytes;
  d["peak"] = stats.peak_bytes;
  d["limit"] = stats.limit_bytes;
  d["refused"] = stats.num_refused;
  return d;
}

py::dict memory_accounts(py::handle device) {
  py::dict result;
  for (const auto& stats : pool_from_python(device, "memory.accounts").account_stats())
    result[py::str(stats.name.empty() ? cat("#", stats.id) : stats.name)] = to_dict(stats);
  return result;
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
  const Device where = device_from_python(device, "trim");
  const WithoutGil released;
  unload_dropped_modules();
  llm::WeightStaging::of(where).trim();
  return pool.trim();
}

// Bytes, "80%" of the device's memory, "8GiB"; 0 and None: none.
std::size_t amount_from_python(py::handle amount, Device device, const char* op) {
  const auto fail = [&] {
    throw InvalidArgument(cat(op, ": limit is ", safe_repr(amount),
                              ", expected bytes, an amount like '8GiB', or a share like '80%'"));
  };
  if (amount.is_none()) return 0;
  if (PyLong_Check(amount.ptr()) != 0) {
    const std::size_t bytes = PyLong_AsSize_t(amount.ptr());
    if (PyErr_Occurred() != nullptr) {
      clear_if(PyExc_OverflowError);
      fail();
    }
    return bytes;
  }
  std::optional<MemoryAmount> parsed;
  if (const auto text = text_from_python(amount)) parsed = parse_memory_amount(*text);
  if (!parsed) fail();
  return parsed->of(memory_info(device).total_bytes);
}

void set_memory_limit(py::handle limit, py::handle device) {
  const Device where = device_from_python(device, "memory.set_limit");
  const std::size_t bytes = amount_from_python(limit, where, "memory.set_limit");
  runtime::Pool& pool = device::device_pool(where);
  if (bytes != 0 && bytes < pool.chunk_bytes())
    throw InvalidArgument(cat("memory.set_limit: limit is ", bytes_text(bytes),
                              ", expected 0 or at least ", bytes_text(pool.chunk_bytes()),
                              ", a chunk of the pool"));
  const WithoutGil released;
  try {
    pool.set_quota(bytes);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory("memory.set_limit", error.numbers());
  }
}

// The pool and the block of an array. Throws where it has no block of its own.
struct Owned {
  runtime::Pool& pool;
  runtime::PoolBlock* block;
};

Owned owned(const Array& array, const char* op) {
  const device::PoolBuffer* buffer = device::pool_buffer(*array.buffer());
  if (buffer == nullptr)
    throw InvalidArgument(cat(op, ": the array is empty, or its memory is not owned by the pool"));
  return {buffer->pool(), buffer->block()};
}

// Runs `call(pool, block)` without the GIL, with the error types of core.
template <class Call>
auto with_block(const Array& array, const char* op, const Call& call) {
  const Owned own = owned(array, op);
  forbid_in_capture(op, "memory is moved now, the work is only being recorded");
  const WithoutGil released;
  try {
    return call(own.pool, own.block);
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(op, error.numbers());
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
      "Allows or forbids eviction under memory pressure. True when that can free memory.");
  m.def(
      "memory_evict",
      [](const Array& a) {
        return with_block(a, "memory.evict",
                          [](runtime::Pool& pool, auto* block) { return pool.evict(block); });
      },
      array, "Evicts the array to host memory now; returns the device bytes freed.");
  m.def(
      "memory_restore",
      [](const Array& a) {
        const auto& stream = current_stream(a.device());
        with_block(a, "memory.restore", [&](runtime::Pool& pool, auto* block) {
          pool.restore(block, device::pool_stream(*stream));
        });
      },
      array, "Restores the array at the same address, ordered on the current stream.");
  m.def(
      "memory_prefetch",
      [](const Array& a) {
        return with_block(a, "memory.prefetch",
                          [](runtime::Pool& pool, auto* block) { return pool.prefetch(block); });
      },
      array, "Starts restoring the array, concurrently with all streams. False: no room.");
  m.def(
      "memory_touch",
      [](const Array& a) {
        const Owned own = owned(a, "memory.touch");
        own.pool.touch(own.block);
      },
      array, "Marks the array as most recently used.");
  m.def(
      "memory_pin",
      [](const Array& a) {
        owned(a, "memory.pin");
        forbid_in_capture("memory.pin", "memory is moved now, the work is only being recorded");
        const WithoutGil released;
        a.buffer()->hold();
      },
      array, "Keeps the array resident until a matching number of unpin() calls.");
  m.def(
      "memory_freeze",
      [](const Array& a) {
        forbid_in_capture("memory.freeze", "it waits for work, which is only being recorded");
        if (a.device().is_cuda()) {
          const WithoutGil released;
          Context::get(a.device().index).synchronize();
        }
        a.buffer()->set_frozen();
      },
      array, "Declares that the array's memory will never be written again.");
  m.def(
      "memory_is_frozen", [](const Array& a) { return a.buffer()->frozen(); }, array,
      "True after freeze().");
  m.def(
      "memory_unpin",
      [](const Array& a) {
        owned(a, "memory.unpin");
        if (!a.buffer()->release_hold())
          throw InvalidArgument("memory.unpin: the array is not pinned");
      },
      array, "Undoes one pin().");
  m.def(
      "memory_is_evicted",
      [](const Array& a) {
        const Owned own = owned(a, "memory.is_evicted");
        return own.pool.is_evicted(own.block);
      },
      array, "True while the array's bytes are in host memory.");
}

// What `with account:` replaced, innermost last. Per thread, like the current account.
struct Replaced {
  const device::MemoryAccount* by;
  std::shared_ptr<device::MemoryAccount> account;
};
std::vector<Replaced>& replaced_accounts() {
  thread_local std::vector<Replaced> stack;
  return stack;
}

std::shared_ptr<device::MemoryAccount> enter_account(
    const std::shared_ptr<device::MemoryAccount>& account) {
  auto& stack = replaced_accounts();
  stack.reserve(stack.size() + 1);
  stack.push_back({account.get(), device::exchange_current_account(account->device(), account)});
  return account;
}

void leave_account(const std::shared_ptr<device::MemoryAccount>& account, const py::args&) {
  auto& stack = replaced_accounts();
  if (stack.empty() || stack.back().by != account.get())
    throw Error(cat("memory.account: '", account->name(),
                    "' is exited, but it was not the last one entered on this thread"));
  device::exchange_current_account(account->device(), std::move(stack.back().account));
  stack.pop_back();
}

std::shared_ptr<device::MemoryAccount> open_account(const std::string& name, py::handle limit,
                                                    const std::string& evict_class,
                                                    py::handle device) {
  constexpr const char* kOp = "memory.account";
  const Device where = device_from_python(device, kOp);
  std::optional<std::size_t> bytes;
  if (!limit.is_none()) bytes = amount_from_python(limit, where, kOp);
  runtime::PoolClass level = runtime::PoolClass::kBurstable;
  if (evict_class == "guaranteed")
    level = runtime::PoolClass::kGuaranteed;
  else if (evict_class == "best_effort")
    level = runtime::PoolClass::kBestEffort;
  else if (evict_class != "burstable")
    throw InvalidArgument(cat(kOp, ": evict_class is '", evict_class,
                              "', expected 'guaranteed', 'burstable' or 'best_effort'"));
  return device::MemoryAccount::open(where, name, bytes, level);
}

void bind_accounts(py::module_& m) {
  py::class_<device::MemoryAccount, std::shared_ptr<device::MemoryAccount>>(
      m, "MemoryAccount",
      "Is charged for the allocations of `with` blocks; refuses those beyond its limit.")
      .def_property_readonly("name", &device::MemoryAccount::name)
      .def_property_readonly("device",
                             [](const device::MemoryAccount& a) { return to_string(a.device()); })
      .def_property_readonly(
          "used", [](const device::MemoryAccount& a) { return a.stats().used_bytes; },
          "Bytes of live arrays, on the device or evicted.")
      .def_property_readonly("peak",
                             [](const device::MemoryAccount& a) { return a.stats().peak_bytes; })
      .def_property_readonly(
          "limit", [](const device::MemoryAccount& a) { return a.stats().limit_bytes; },
          "In bytes; 0: none.")
      .def_property_readonly(
          "refused", [](const device::MemoryAccount& a) { return a.stats().num_refused; },
          "Allocations that were refused.")
      .def(
          "set_limit",
          [](device::MemoryAccount& a, py::handle limit) {
            a.set_limit(amount_from_python(limit, a.device(), "memory.account"));
          },
          py::arg("limit"),
          "A limit below the current use refuses new allocations and revokes nothing. None or 0: "
          "none.")
      .def("__enter__", enter_account)
      .def("__exit__", leave_account)
      .def("__repr__", [](const device::MemoryAccount& a) {
        const auto s = a.stats();
        return cat("MemoryAccount('", s.name, "', used=", bytes_text(s.used_bytes),
                   ", limit=", s.limit_bytes == 0 ? std::string("none") : bytes_text(s.limit_bytes),
                   ", device='", to_string(a.device()), "')");
      });
  m.def("memory_account", open_account, py::arg("name"), py::arg("limit") = py::none(),
        py::kw_only(), py::arg("evict_class") = "burstable", py::arg("device") = py::none(),
        "The account of that name on the device, created on first use.");
}

// gc.collect() and not PyGC_Collect(), which is a no-op while automatic collection is off.
void collect_garbage() {
  if (!python_runs()) return;
  const WithGil gil;
  const py::error_scope kept;
  try {
    py::module_::import("gc").attr("collect")();
  } catch (py::error_already_set& error) {
    report_unraisable(error, "gc.collect");
  }
}

}  // namespace

void bind_pool(py::module_& m) {
  const auto device = py::arg("device") = py::none();
  m.def("memory_stats", memory_stats, device, "Statistics of the device's memory pool, in bytes.");
  m.def("memory_snapshot", memory_snapshot, device,
        "The ranges of the pool in address order: kind, address, bytes.");
  m.def("trim", trim, device,
        "Releases cached device memory and unused modules to the driver; returns the bytes freed.");
  m.def("set_memory_limit", set_memory_limit, py::arg("limit"), device,
        "The most physical memory the pool may hold: bytes, '8GiB', '80%', None.");
  m.def("memory_accounts", memory_accounts, device, "Statistics of the open accounts, by name.");
  m.def(
      "set_evictable_default",
      [](py::handle from, py::handle where) {
        const Device on = device_from_python(where, "memory.set_evictable_default");
        device::device_pool(on).set_evict_from(
            amount_from_python(from, on, "memory.set_evictable_default"));
      },
      py::arg("min_bytes"), device,
      "New arrays of at least that size are evictable by default; None: only marked ones.");
  bind_eviction(m);
  bind_accounts(m);
  device::set_collect_hook(collect_garbage);
}

}  // namespace gpk::bind
