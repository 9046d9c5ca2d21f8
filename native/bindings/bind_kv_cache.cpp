// Key/value caches: fused writes, and pages.
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "ops/kv_cache/pages.h"
#include "ops/kv_cache/write.h"

namespace gpk::bind {
namespace {

ops::KvCache cache_at(const Arguments& args, int cache, int scale) {
  if (is_array(args[scale].ptr())) return {args.array(cache), {1.0, args.array(scale)}};
  return {args.array(cache), {args.number(scale), {}}};
}

void bind_write(py::module_& m) {
  define(m, "kv_cache_write", [](const Arguments& args) -> PyObject* {
    const Array& k = args.array(0);
    const Array& v = args.array(1);
    const ops::KvCache k_cache = cache_at(args, 2, 13);
    const ops::KvCache v_cache = cache_at(args, 3, 14);
    const Array& slots = args.array(4);
    const ops::KvWriteOptions options{args.optional_array(5), args.optional_array(6),
                                      args.optional_array(7), args.optional_array(8),
                                      args.optional_array(9), args.optional_array(10),
                                      args.number(11),        args.number(12)};
    const std::optional<Array> q_out = args.out(15);
    std::optional<Array> result;
    {
      const BrieflyWithoutGil released;
      result = ops::kv_cache_write(k, v, k_cache, v_cache, slots, options, q_out);
    }
    if (!result) return Py_NewRef(Py_None);
    if (q_out) return Py_NewRef(args[15].ptr());
    return make_array_object(std::move(*result));
  });
}

}  // namespace

void bind_kv_cache(py::module_& m) {
  bind_write(m);
  define(m, "slot_mapping", [](const Arguments& args) {
    const Array& block_tables = args.array(0);
    const Array& positions = args.array(1);
    const std::optional<Array> sequences = args.optional_array(2);
    const std::int64_t page = args.integer(3);
    return run_into(args, 4, [&](const auto& out) {
      return ops::slot_mapping(block_tables, positions, sequences, page, out);
    });
  });
  define(m, "copy_pages", [](const Arguments& args) {
    const Array& k_cache = args.array(0);
    const std::optional<Array> v_cache = args.optional_array(1);
    const Array& pairs = args.array(2);
    const BrieflyWithoutGil released;
    ops::copy_pages(k_cache, v_cache, pairs);
  });
  define(m, "gather_pages", [](const Arguments& args) {
    const Array& cache = args.array(0);
    const Array& block_tables = args.array(1);
    const std::int64_t length = args.integer(2);
    const std::optional<Array> lengths = args.optional_array(3);
    return run_into(args, 4, [&](const auto& out) {
      return ops::gather_pages(cache, block_tables, length, lengths, out);
    });
  });
}

}  // namespace gpk::bind
