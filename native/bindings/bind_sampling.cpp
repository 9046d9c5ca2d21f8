// Tokens from logits.
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "ops/sampling/logprobs.h"
#include "ops/sampling/sample.h"
#include "ops/sampling/timestamp_rules.h"

namespace gpk::bind {
namespace {

ops::RowNumber row_number(const Arguments& args, int i) {
  if (is_array(args[i].ptr())) return {0.0, args.array(i)};
  return {args.number(i), {}};
}

ops::RowInteger row_integer(const Arguments& args, int i) {
  if (is_array(args[i].ptr())) return {0, args.array(i)};
  return {args.integer(i), {}};
}

// Arguments 1 to 11 of both functions.
ops::SampleFilter sample_filter(const Arguments& args) {
  return {row_number(args, 1),     row_integer(args, 2),   row_number(args, 3),
          row_number(args, 4),     row_number(args, 5),    row_number(args, 6),
          row_number(args, 7),     row_number(args, 8),    args.optional_array(9),
          args.optional_array(10), args.optional_array(11)};
}

}  // namespace

void bind_sampling(py::module_& m) {
  define(m, "sample", [](const Arguments& args) {
    const Array& logits = args.array(0);
    const ops::SampleFilter filter = sample_filter(args);
    const ops::SampleSource source{row_integer(args, 12), row_integer(args, 13),
                                   args.optional_array(14)};
    return run_into(args, 15,
                    [&](const auto& out) { return ops::sample(logits, filter, source, out); });
  });
  define(m, "sampling_probs", [](const Arguments& args) {
    const Array& logits = args.array(0);
    const ops::SampleFilter filter = sample_filter(args);
    return run_into(args, 12,
                    [&](const auto& out) { return ops::sampling_probs(logits, filter, out); });
  });
  define(m, "token_logprobs", [](const Arguments& args) {
    const Array& logits = args.array(0);
    const Array& tokens = args.array(1);
    const std::int64_t n = args.integer(2);
    auto result = [&] {
      const BrieflyWithoutGil released;
      return ops::token_logprobs(logits, tokens, n);
    }();
    const auto object = [](Array array) {
      return py::reinterpret_steal<py::object>(make_array_object(std::move(array)));
    };
    return py::object(py::make_tuple(object(std::move(result.chosen)),
                                     object(std::move(result.ids)),
                                     object(std::move(result.logprobs))));
  });
  define(m, "timestamp_rules", [](const Arguments& args) {
    const Array& logits = args.array(0);
    const Array& tokens = args.array(1);
    const Array& history = args.array(2);
    const ops::TimestampRules rules{args.array(3), args.array(4), args.integer(5), args.integer(6),
                                    args.integer(7)};
    return run_into(args, 8, [&](const auto& out) {
      return ops::timestamp_rules(logits, tokens, history, rules, out);
    });
  });
  define(m, "count_tokens", [](const Arguments& args) {
    const Array& counts = args.array(0);
    const Array& ids = args.array(1);
    const BrieflyWithoutGil released;
    ops::count_tokens(counts, ids);
  });
}

}  // namespace gpk::bind
