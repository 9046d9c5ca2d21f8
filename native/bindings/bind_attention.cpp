// Attention.
#include "base/error.h"
#include "base/text.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/op_function.h"
#include "ops/attention/attention.h"

namespace gpk::bind {
namespace {

// Kernels take scales by value: an array would be read back, which waits and cannot be captured.
double host_scale(const Arguments& args, int i, const char* argument) {
  if (is_array(args[i].ptr()))
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat("attention: ", argument, " is an array on ", to_string(args.array(i).device()),
            ", expected a number; float() reads it back"));
  return args.number(i);
}

}  // namespace

void bind_attention(py::module_& m) {
  define(m, "attention", [](const Arguments& args) {
    const Array& q = args.array(0);
    const Array& k = args.array(1);
    const Array& v = args.array(2);
    ops::AttentionOptions options;
    options.causal = args.flag(3);
    options.mask = args.optional_array(4);
    options.bias = args.optional_array(5);
    options.window = args.integer(6);
    options.softcap = args.number(7);
    options.sinks = args.optional_array(8);
    options.scale = args.is_none(9) ? 0.0 : args.number(9);
    options.lengths = args.optional_array(10);
    options.cu_seqlens_q = args.optional_array(11);
    options.cu_seqlens_k = args.optional_array(12);
    options.max_seqlen_q = args.integer(13);
    options.block_table = args.optional_array(14);
    options.k_scale = host_scale(args, 15, "k_scale");
    options.v_scale = host_scale(args, 16, "v_scale");
    return run_into(args, 17,
                    [&](const auto& out) { return ops::run_attention(q, k, v, options, out); });
  });
}

}  // namespace gpk::bind
