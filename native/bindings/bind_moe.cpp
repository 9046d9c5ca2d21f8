// Mixture of experts.
#include "bindings/bind.h"
#include "bindings/op_function.h"
#include "ops/moe/permute.h"
#include "ops/moe/route.h"
#include "ops/moe/steps.h"
#include "ops/moe/unpermute.h"

namespace gpk::bind {
namespace {

py::object object_of(Array array) {
  return py::reinterpret_steal<py::object>(make_array_object(std::move(array)));
}

// (logits, top_k, scoring, renormalize, num_groups, top_groups, bias, scale)
py::object moe_route(const Arguments& args) {
  const Array& logits = args.array(0);
  const std::int64_t top_k = args.integer(1);
  ops::MoeRouteOptions options;
  options.scores = ops::moe_scores_named(args.text(2), args.op());
  options.renormalize = args.flag(3);
  options.num_groups = args.integer(4);
  options.top_groups = args.integer(5);
  options.bias = args.optional_array(6);
  options.scale = args.number(7);
  auto routing = [&] {
    const BrieflyWithoutGil released;
    return ops::moe_route(logits, top_k, options);
  }();
  return py::make_tuple(object_of(std::move(routing.weights)),
                        object_of(std::move(routing.experts)));
}

// (x, experts, num_experts, out)
py::object moe_permute(const Arguments& args) {
  const Array& x = args.array(0);
  const Array& experts = args.array(1);
  const std::int64_t num_experts = args.integer(2);
  const std::optional<Array> out = args.out(3);
  auto result = [&] {
    const BrieflyWithoutGil released;
    return ops::moe_permute(x, experts, num_experts, out);
  }();
  const py::object rows =
      out ? py::reinterpret_borrow<py::object>(args[3]) : object_of(std::move(result.rows));
  return py::make_tuple(rows, object_of(std::move(result.sizes)),
                        object_of(std::move(result.row_map)));
}

void bind_steps(py::module_& m) {
  define(m, "moe_topk_with_indices", [](const Arguments& args) {
    const std::int64_t k = args.integer(3);
    ops::moe_topk_with_indices(args.array(0), args.array(1), args.array(2), k);
  });
  define(m, "moe_softmax_topk",
         [](const Arguments& args) { ops::moe_softmax_topk(args.array(0), args.integer(1)); });
  define(m, "moe_compute_permutation", [](const Arguments& args) {
    const ops::MoePermutationTargets to{args.array(1), args.array(2), args.array(3), args.array(4)};
    ops::moe_compute_permutation(args.array(0), to, args.integer(5), args.integer(6));
  });
  define(m, "moe_gather", [](const Arguments& args) {
    ops::moe_gather(args.array(0), args.array(1), args.array(2), args.integer(3));
  });
  define(m, "moe_scatter", [](const Arguments& args) {
    ops::moe_scatter(args.array(0), args.array(1), args.array(2), args.array(3), args.integer(4));
  });
  define(m, "moe_expand_expert_offsets", [](const Arguments& args) {
    ops::moe_expand_expert_offsets(args.array(0), args.array(1), args.integer(2));
  });
}

}  // namespace

void bind_moe(py::module_& m) {
  define(m, "moe_route", moe_route);
  define(m, "moe_permute", moe_permute);
  define(m, "moe_unpermute", [](const Arguments& args) {
    const Array& rows = args.array(0);
    const Array& row_map = args.array(1);
    const std::optional<Array> weights = args.optional_array(2);
    return run_into(
        args, 3, [&](const auto& out) { return ops::moe_unpermute(rows, row_map, weights, out); });
  });
  bind_steps(m);
}

}  // namespace gpk::bind
