#include "ops/moe/permute.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/view.h"
#include "kernels/args/moe.h"
#include "ops/cpu_backend.h"
#include "ops/device_address.h"
#include "ops/elementwise/copy.h"
#include "ops/kernel_table.h"
#include "ops/moe/kernels.h"
#include "ops/nn/rows.h"
#include "ops/output.h"
#include "ops/submit.h"
#include "ops/word_type.h"
#include "plan/key_builder.h"

namespace gpk::ops {
namespace {

using kernels::kPermuteBlock;
using kernels::MoePermuteArgs;
using moe::MoeKernel;

// Where ranking a slot by counting all others is cheaper than three more launches.
constexpr std::int64_t kFewSlots = 2048;
constexpr std::size_t kWordBytes[] = {1, 2, 4, 16};

// `word`: bytes moved at a time; 0: the kernel moves none.
struct Variant {
  MoeKernel kernel;
  DType index = DType::kInt32;
  std::size_t word = 0;
};

std::uint64_t pack(const Variant& v) {
  return plan::KeyBuilder()
      .field("index", v.index, plan::kDTypeBits)
      .field("word", v.word, 5)
      .key();
}

jit::KernelSpec permute_spec(const Variant& v) {
  jit::KernelSpec spec;
  spec.file = "moe/permute.cuh";
  spec.op = "moe_permute";
  spec.kernel = static_cast<std::uint8_t>(v.kernel);
  spec.variant = pack(v);
  const char* const index = info(v.index).cuda_name;
  switch (v.kernel) {
    case MoeKernel::kPermuteFew:
      spec.expression = cat("gpk::moe_permute_few<", index, ", ", word_type(v.word), ">");
      break;
    case MoeKernel::kCount: spec.expression = cat("gpk::moe_count<", index, ">"); break;
    case MoeKernel::kPlace: spec.expression = cat("gpk::moe_place<", index, ">"); break;
    case MoeKernel::kCopy: spec.expression = cat("gpk::moe_copy<", word_type(v.word), ">"); break;
    default: spec.expression = "gpk::moe_scan"; break;
  }
  return spec;
}

void launch(const Variant& variant, const MoePermuteArgs& given, std::int64_t blocks,
            std::initializer_list<const Array*> arrays) {
  MoePermuteArgs args = given;
  const Array& first = **arrays.begin();
  const Kernel& code =
      kernel(Context::get(first.device().index),
             {Family::moe, static_cast<std::uint8_t>(variant.kernel), pack(variant)},
             [&] { return permute_spec(variant); });
  void* params[] = {&args};
  submit(code, grid_1d(blocks, 1, kPermuteBlock), arrays, params);
}

void check_experts(const Array& experts, std::int64_t num_experts, const char* op) {
  if (experts.dtype() != DType::kInt32 && experts.dtype() != DType::kInt64)
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(op, ": experts has dtype ", name(experts.dtype()), ", expected int32 or int64"));
  const bool shaped = experts.ndim() == 1 || (experts.ndim() == 2 && experts.shape()[1] >= 1 &&
                                              experts.shape()[1] <= kernels::kMaxTopK);
  if (!shaped)
    throw InvalidArgument(cat(op, ": experts has shape ", to_string(experts.shape()),
                              ", expected (tokens, top_k) with 1 to ", kernels::kMaxTopK,
                              " choices, or (tokens,)"));
  if (experts.size() > std::numeric_limits<std::int32_t>::max())
    throw InvalidArgument(cat(op, ": experts has shape ", to_string(experts.shape()),
                              ", expected fewer than 2**31 elements"));
  if (num_experts < 1 || num_experts > kernels::kMaxExperts)
    throw InvalidArgument(
        cat(op, ": num_experts is ", num_experts, ", expected 1 to ", kernels::kMaxExperts));
}

void check_permute(const Array& x, const Array& experts, std::int64_t num_experts, const char* op) {
  check_experts(experts, num_experts, op);
  if (itemsize(x.dtype()) > 4)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat(op, ": x has dtype ", name(x.dtype()),
                              ", expected one of at most 4 bytes per element"));
  if (x.ndim() != 2 || x.shape()[0] != experts.shape()[0])
    throw InvalidArgument(cat(op, ": x has shape ", to_string(x.shape()), ", expected (",
                              experts.shape()[0], ", n) for experts of shape ",
                              to_string(experts.shape())));
  if (experts.device() != x.device())
    throw InvalidArgument(
        cat(op, ": experts is on ", to_string(experts.device()), ", x on ", to_string(x.device())));
}

// What all kernels share. `experts` is contiguous.
MoePermuteArgs order_args(const Array& experts, const MoeOrder& order) {
  MoePermuteArgs args{};
  args.experts = address(experts);
  args.sizes = address(order.sizes);
  args.row_map = address(order.row_map);
  args.slots = order.slots.size() == 0 ? nullptr : static_cast<int*>(address(order.slots));
  args.tokens = experts.shape()[0];
  args.num_slots = experts.size();
  args.num_experts = static_cast<int>(order.sizes.size());
  args.top_k = experts.ndim() == 1 ? 1 : static_cast<int>(experts.shape()[1]);
  args.num_tiles = static_cast<int>(ceil_div(args.num_slots, std::int64_t{kPermuteBlock}));
  return args;
}

// Sizes and row_map of many slots.
void launch_order(MoePermuteArgs args, const Array& experts, const MoeOrder& order,
                  const char* op) {
  const Device device = experts.device();
  const std::int64_t buckets = args.num_experts + 1;
  const Array counts = Array::empty({buckets, args.num_tiles}, DType::kInt32, device, op);
  const Array totals = Array::empty({buckets}, DType::kInt32, device, op);
  args.counts = address(counts);
  args.totals = address(totals);
  launch({MoeKernel::kCount, experts.dtype()}, args, args.num_tiles, {&experts, &counts});
  launch({MoeKernel::kScan}, args, buckets, {&counts, &totals, &order.sizes});
  launch({MoeKernel::kPlace, experts.dtype()}, args, args.num_tiles,
         {&experts, &counts, &totals, &order.row_map, &order.slots});
}

// The widest words that rows of both consist of.
std::size_t word_of(const nn::Rows& x, const Array& rows) {
  const std::size_t item = itemsize(x.array.dtype());
  const bool whole = x.width * static_cast<std::int64_t>(item) % 16 == 0;
  return whole && nn::is_aligned({&x}) && nn::is_aligned(std::optional(rows)) ? 16 : item;
}

void launch_permute(const Array& given, const Array& experts, const MoePermutation& result,
                    const char* op) {
  const nn::Rows x = nn::rows_of(given, op);
  const MoeOrder order{result.sizes, result.row_map,
                       Array::empty({0}, DType::kInt32, given.device(), op)};
  MoePermuteArgs args = order_args(experts, order);
  const std::size_t word = word_of(x, result.rows);
  const auto per_word = static_cast<std::int64_t>(word / itemsize(given.dtype()));
  args.x = address(x.array);
  args.rows = address(result.rows);
  args.x_row = x.stride / per_word;
  args.words = given.shape()[1] / per_word;
  args.lanes = moe::row_lanes(args.words, 4);
  if (args.num_slots <= kFewSlots) {
    launch({MoeKernel::kPermuteFew, experts.dtype(), word}, args, args.tokens + 1,
           {&experts, &x.array, &result.rows, &result.sizes, &result.row_map});
    return;
  }
  launch_order(args, experts, order, op);
  launch({MoeKernel::kCopy, DType::kInt32, word}, args,
         ceil_div(args.tokens, std::int64_t{kPermuteBlock / args.lanes}),
         {&x.array, &result.row_map, &result.rows});
}

}  // namespace

int moe::row_lanes(std::int64_t accesses, int each) {
  const std::int64_t wanted = std::clamp<std::int64_t>(ceil_div(accesses, each), 1, kPermuteBlock);
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(wanted)));
}

MoePermutation moe_permute(const Array& x, const Array& experts, std::int64_t num_experts,
                           const std::optional<Array>& out, const char* op) {
  check_permute(x, experts, num_experts, op);
  const Dims shape{experts.size(), x.shape()[1]};
  if (out) check_out(*out, shape, x.dtype(), x.device(), op);
  const bool direct = out && out->dtype() == x.dtype() && out->is_contiguous() &&
                      !may_overlap(*out, x) && !may_overlap(*out, experts);
  MoePermutation result{direct ? *out : Array::empty(shape, x.dtype(), x.device(), op),
                        Array::empty({num_experts}, DType::kInt32, x.device(), op),
                        Array::empty(experts.shape(), DType::kInt32, x.device(), op)};
  if (x.device().is_cuda()) {
    launch_permute(x, contiguous(experts, op), result, op);
  } else {
    run_on_cpu({"moe_permute", {x, experts}, {result.rows, result.sizes, result.row_map}});
  }
  if (!out || direct) return result;
  copy_into(*out, result.rows, op);
  result.rows = *out;
  return result;
}

MoeOrder moe_order(const Array& experts, std::int64_t num_experts, const char* op) {
  check_experts(experts, num_experts, op);
  const Device device = experts.device();
  const MoeOrder order{Array::empty({num_experts}, DType::kInt32, device, op),
                       Array::empty(experts.shape(), DType::kInt32, device, op),
                       Array::empty({experts.size()}, DType::kInt32, device, op)};
  if (!device.is_cuda()) {
    run_on_cpu({"moe_order", {experts}, {order.sizes, order.row_map, order.slots}});
    return order;
  }
  const Array ids = contiguous(experts, op);
  const MoePermuteArgs args = order_args(ids, order);
  if (args.num_slots <= kFewSlots) {
    launch({MoeKernel::kPermuteFew, ids.dtype(), 16}, args, args.tokens + 1,
           {&ids, &order.sizes, &order.row_map, &order.slots});
  } else {
    launch_order(args, ids, order, op);
  }
  return order;
}

void moe::enumerate_permute(std::vector<jit::KernelSpec>& specs) {
  specs.push_back(permute_spec({MoeKernel::kScan}));
  for (const std::size_t word : kWordBytes)
    specs.push_back(permute_spec({MoeKernel::kCopy, DType::kInt32, word}));
  for (const DType index : {DType::kInt32, DType::kInt64}) {
    specs.push_back(permute_spec({MoeKernel::kCount, index}));
    specs.push_back(permute_spec({MoeKernel::kPlace, index}));
    for (const std::size_t word : kWordBytes)
      specs.push_back(permute_spec({MoeKernel::kPermuteFew, index, word}));
  }
}

}  // namespace gpk::ops
