#include "ops/elementwise/concat.h"
#include "ops/elementwise/elementwise.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "base/error.h"
#include "core/view.h"
#include "fake_driver/core_fixture.h"
#include "ops/elementwise/layout.h"
#include "ops/elementwise/map.h"
#include "ops/elementwise/map_params.h"

namespace gpk::ops::elementwise {
namespace {

// Arrays over unallocated memory: plans only read addresses.
Array pretend(Dims shape, Dims strides, DType dtype, std::uintptr_t address = 1 << 20) {
  static int owner = 0;
  const auto buffer = Buffer::wrap(kCpu, reinterpret_cast<void*>(address), std::size_t{1} << 40,
                                   std::shared_ptr<void>(&owner, [](void*) {}));
  return {std::move(shape), std::move(strides), dtype, buffer, 0};
}

Array dense(const Dims& shape, DType dtype = DType::kFloat32, std::uintptr_t address = 1 << 20) {
  return pretend(shape, contiguous_strides(shape), dtype, address);
}

Layout layout_of(const std::vector<Array>& arrays) {
  std::vector<const Array*> pointers;
  for (const Array& array : arrays) pointers.push_back(&array);
  return make_layout(arrays.back().shape(), pointers);
}

// A plan for the given operands; the last one is the result.
MapPlan plan_of(const std::vector<Array>& arrays, bool jit = true) {
  std::vector<MapOperand> operands;
  for (std::size_t i = 0; i + 1 < arrays.size(); ++i) operands.push_back({&arrays[i], {}});
  return plan_map(layout_of(arrays), operands, arrays.back(), jit);
}

std::string text_of(const std::vector<Array>& arrays) { return to_string(layout_of(arrays)); }

TEST(LayoutTest, ContiguousOperandsAreOneAxis) {
  EXPECT_EQ(text_of({dense({2, 3, 4}), dense({2, 3, 4})}), "layout(size=(24), strides=((1), (1)))");
  EXPECT_EQ(text_of({dense({}), dense({})}), "layout(size=(), strides=((), ()))");
  EXPECT_EQ(text_of({dense({1, 1}), dense({1, 1})}), "layout(size=(), strides=((), ()))");
  EXPECT_EQ(text_of({dense({1, 5, 1}), dense({5, 1})}), "layout(size=(5), strides=((1), (1)))");
}

TEST(LayoutTest, BroadcastAxesHaveStrideZero) {
  EXPECT_EQ(text_of({dense({4}), dense({3, 4})}), "layout(size=(4, 3), strides=((1, 0), (1, 4)))");
  EXPECT_EQ(text_of({dense({3, 1}), dense({3, 4})}),
            "layout(size=(4, 3), strides=((0, 1), (1, 4)))");
  EXPECT_EQ(text_of({dense({}), dense({3, 4})}), "layout(size=(12), strides=((0), (1)))");
  EXPECT_EQ(text_of({dense({1, 3, 4}), dense({5, 3, 4})}),
            "layout(size=(12, 5), strides=((1, 0), (1, 12)))");
}

TEST(LayoutTest, AxesFollowTheResult) {
  const Array moved = pretend({3, 4}, {1, 3}, DType::kFloat32);
  EXPECT_EQ(text_of({moved, moved}), "layout(size=(12), strides=((1), (1)))");
  EXPECT_EQ(text_of({moved, dense({3, 4})}), "layout(size=(4, 3), strides=((3, 1), (1, 4)))");
  const Array backwards = pretend({3, 4}, {-4, -1}, DType::kFloat32);
  EXPECT_EQ(text_of({dense({3, 4}), backwards}), "layout(size=(12), strides=((1), (-1)))");
}

TEST(LayoutTest, GapsKeepAxesApart) {
  const Array rows = pretend({3, 4}, {8, 1}, DType::kFloat32);
  EXPECT_EQ(text_of({rows, dense({3, 4})}), "layout(size=(4, 3), strides=((1, 8), (1, 4)))");
  const Array steps = pretend({3, 4}, {8, 2}, DType::kFloat32);
  EXPECT_EQ(text_of({steps, dense({3, 4})}), "layout(size=(12), strides=((2), (1)))");
}

TEST(LayoutTest, ThirtyTwoBits) {
  constexpr std::int64_t kLimit = INT32_MAX;
  EXPECT_TRUE(fits_32_bits(layout_of({dense({kLimit}), dense({kLimit})})));
  EXPECT_FALSE(fits_32_bits(layout_of({dense({kLimit + 1}), dense({kLimit + 1})})));
  const Array far = pretend({3}, {1 << 30}, DType::kUInt8);
  EXPECT_FALSE(fits_32_bits(layout_of({far, dense({3})})));
  const Array far_back = pretend({3}, {-(1 << 30)}, DType::kUInt8);
  EXPECT_FALSE(fits_32_bits(layout_of({far_back, dense({3})})));
  const Array near = pretend({2}, {1 << 30}, DType::kUInt8);
  EXPECT_TRUE(fits_32_bits(layout_of({near, dense({2})})));
}

// --- plans --------------------------------------------------------------------------------------

TEST(MapPlanTest, DenseArraysTakeSixteenBytesAtATime) {
  const auto vec = [](DType in, DType out, std::uintptr_t address = 1 << 20) {
    return plan_of({dense({1000}, in, address), dense({1000}, out)}).vec;
  };
  EXPECT_EQ(vec(DType::kUInt8, DType::kUInt8), 16);
  EXPECT_EQ(vec(DType::kFloat16, DType::kFloat16), 8);
  EXPECT_EQ(vec(DType::kFloat32, DType::kBool), 4);
  EXPECT_EQ(vec(DType::kInt8, DType::kFloat64), 2);
  EXPECT_EQ(vec(DType::kComplex128, DType::kFloat64), 1);
  EXPECT_EQ(vec(DType::kFloat32, DType::kFloat32, (1 << 20) + 4), 1);
  EXPECT_EQ(vec(DType::kInt8, DType::kFloat32, (1 << 20) + 4), 4);  // four bytes are enough
  EXPECT_EQ(plan_of({dense({1000}), dense({1000})}).items, 1000);
}

TEST(MapPlanTest, KindsOfOperands) {
  const Array x = dense({64});
  const Array one = dense({1});
  const std::vector<MapOperand> operands = {{&x, {}}, {&one, {}}, {nullptr, {}}};
  const Array* arrays[] = {&x, &one, nullptr, &x};
  const MapPlan plan = plan_map(make_layout(x.shape(), arrays), operands, x, true);
  EXPECT_EQ(to_string(plan), "map(dense, vec=4, deep=false, wide=false, kinds=36, items=64)");
  const MapPlan single = plan_of({dense({}), dense({})});
  EXPECT_EQ(to_string(single), "map(dense, vec=4, deep=false, wide=false, kinds=1, items=1)");
}

TEST(MapPlanTest, StridedArraysStayWideAlongContiguousRows) {
  const Array rows = pretend({8, 64}, {128, 1}, DType::kFloat32);
  EXPECT_EQ(to_string(plan_of({rows, dense({8, 64})})),
            "map(strided, vec=4, deep=false, wide=false, kinds=0, items=128)");
  const Array odd_gap = pretend({8, 64}, {66, 1}, DType::kFloat32);
  EXPECT_EQ(plan_of({odd_gap, dense({8, 64})}).vec, 2);
  const Array odd_start = pretend({8, 64}, {128, 1}, DType::kFloat32, (1 << 20) + 4);
  EXPECT_EQ(plan_of({odd_start, dense({8, 64})}).vec, 1);
  EXPECT_EQ(plan_of({pretend({8, 63}, {128, 1}, DType::kFloat32), dense({8, 63})}).vec, 1);
  EXPECT_EQ(plan_of({pretend({64}, {2}, DType::kFloat32), dense({64})}).vec, 1);
  EXPECT_EQ(plan_of({pretend({64}, {-1}, DType::kFloat32), dense({64})}).vec, 1);
}

TEST(MapPlanTest, BroadcastOperandsDoNotNarrowTheAccess) {
  const MapPlan row = plan_of({dense({64}), dense({8, 64})});
  EXPECT_EQ(to_string(row), "map(strided, vec=4, deep=false, wide=false, kinds=0, items=128)");
  const MapPlan column = plan_of({dense({8, 1}, DType::kFloat32, (1 << 20) + 4), dense({8, 64})});
  EXPECT_EQ(to_string(column), "map(strided, vec=4, deep=false, wide=false, kinds=1, items=128)");
}

TEST(MapPlanTest, ManyAxesAndLongDistances) {
  const Dims shape = {2, 3, 2, 3, 2, 3};
  const Array moved = permute(dense(shape), {5, 4, 3, 2, 1, 0}, "p");
  const MapPlan deep = plan_of({moved, dense(moved.shape())});
  EXPECT_TRUE(deep.deep);
  EXPECT_FALSE(deep.wide);
  const MapPlan wide = plan_of({pretend({1 << 20}, {1 << 12}, DType::kUInt8), dense({1 << 20})});
  EXPECT_TRUE(wide.wide);
  EXPECT_FALSE(wide.deep);
  const MapPlan large = plan_of({dense({std::int64_t{1} << 33}), dense({std::int64_t{1} << 33})});
  EXPECT_EQ(large.form, MapPlan::Form::kDense);
  EXPECT_EQ(large.items, std::int64_t{1} << 33);
}

TEST(MapPlanTest, WithoutCompilerOneKernelForAll) {
  const MapPlan plan = plan_of({dense({64}), dense({8, 64})}, false);
  EXPECT_EQ(plan.form, MapPlan::Form::kAny);
  EXPECT_EQ(plan.items, 512);
}

TEST(MapPlanTest, Expressions) {
  const DType inputs[] = {DType::kFloat32, DType::kInt8};
  MapPlan plan;
  plan.vec = 4;
  EXPECT_EQ(map_expression(plan, "gpk::Add", "float", inputs, DType::kFloat16),
            "gpk::map_dense<gpk::Add, float, gpk::float16, 4, 2, 0u, float, signed char>");
  plan.form = MapPlan::Form::kStrided;
  plan.deep = true;
  plan.wide = true;
  plan.kinds = 4;
  EXPECT_EQ(
      map_expression(plan, "gpk::Add", "float", inputs, DType::kFloat32),
      "gpk::map_strided<gpk::Add, float, float, 4, 2, 32, long long, 4u, float, signed char>");
  EXPECT_EQ(any_expression("gpk::Add", DType::kInt8, 2), "gpk::map_any<gpk::Add, long long, 2>");
}

TEST(MapPlanTest, KeysAreDifferentWhereKernelsAre) {
  std::set<std::uint64_t> keys;
  int count = 0;
  for (const unsigned op : {0u, 1u, 250u})
    for (const bool strided : {false, true})
      for (const int vec : {1, 2, 4, 8, 16})
        for (const std::uint32_t kinds : {0u, 1u, 4u, 8u})
          for (const DType a : {DType::kFloat32, DType::kInt32})
            for (const DType b : {DType::kFloat32, DType::kInt32})
              for (const DType result : {DType::kBool, DType::kFloat32}) {
                MapPlan plan;
                plan.form = strided ? MapPlan::Form::kStrided : MapPlan::Form::kDense;
                plan.vec = vec;
                plan.kinds = kinds;
                const DType inputs[] = {a, b};
                keys.insert(map_key(plan, op, DType::kFloat32, inputs, result));
                ++count;
              }
  EXPECT_EQ(keys.size(), static_cast<std::size_t>(count));
}

// --- kernel arguments ---------------------------------------------------------------------------

template <class Args>
Args args_of(const MapPlan& plan, const Layout& layout, std::span<const MapOperand> operands,
             const Array& result) {
  MapParams params;
  params.write(plan, layout, operands, result);
  Args args;
  std::memcpy(&args, params.bytes(), sizeof args);
  return args;
}

TEST(MapParamsTest, DenseArraysAndNumbers) {
  const Array a = dense({1024}, DType::kFloat32, 1 << 20);
  const Array result = dense({1024}, DType::kFloat32, 1 << 21);
  const MapOperand operands[] = {{&a, {}}, {nullptr, {{7}}}};
  MapPlan plan;
  plan.kinds = 8;
  const auto args = args_of<kernels::MapArgs<2>>(plan, Layout{}, operands, result);
  EXPECT_EQ(args.in[0], a.data());
  EXPECT_EQ(args.in[1], nullptr);
  EXPECT_EQ(args.out, result.data());
  EXPECT_EQ(args.number[1].bytes[0], 7);
  MapParams params;
  params.write(plan, Layout{}, operands, result);
  params.advance(plan, operands, result, 256);
  kernels::MapArgs<2> moved;
  std::memcpy(&moved, params.bytes(), sizeof moved);
  EXPECT_EQ(moved.in[0], static_cast<const unsigned char*>(a.data()) + 1024);
  EXPECT_EQ(moved.in[1], nullptr);
  EXPECT_EQ(moved.out, static_cast<unsigned char*>(result.data()) + 1024);
}

TEST(MapParamsTest, StridedArgumentsFollowTheLayout) {
  const Array a = dense({64});
  const Array b = dense({8, 1});
  const Array result = dense({8, 64});
  const std::vector<Array> arrays = {a, b, result};
  const Layout layout = layout_of(arrays);
  const MapOperand operands[] = {{&a, {}}, {&b, {}}};
  const MapPlan plan = plan_map(layout, operands, result, true);
  ASSERT_EQ(plan.form, MapPlan::Form::kStrided);
  ASSERT_EQ(plan.vec, 4);
  const auto args = args_of<kernels::StridedArgs<2, 4, int>>(plan, layout, operands, result);
  EXPECT_EQ(args.map.in[1], b.data());
  EXPECT_EQ(args.n, 8 * 64 / 4);
  EXPECT_EQ(args.rank, 2);
  EXPECT_EQ(args.size[0].divisor, 16u);
  EXPECT_EQ(args.long_size[1], 8);
  EXPECT_EQ(args.stride[0][0], 4);
  EXPECT_EQ(args.stride[0][1], 0);
  EXPECT_EQ(args.stride[1][1], 1);
  EXPECT_EQ(args.stride[1][2], 64);
}

TEST(MapParamsTest, DtypesAtRunTime) {
  const Array a = dense({64}, DType::kInt8);
  const Array result = dense({8, 64}, DType::kFloat16);
  const Layout layout = layout_of({a, dense({}), result});
  const MapOperand operands[] = {{&a, {}}, {nullptr, {}}};
  const MapPlan plan = plan_map(layout, operands, result, false);
  const auto args = args_of<kernels::AnyArgs<2>>(plan, layout, operands, result);
  EXPECT_EQ(args.strided.n, 8 * 64);
  EXPECT_EQ(args.strided.rank, 2);
  EXPECT_EQ(args.dtype[0], static_cast<unsigned char>(DType::kInt8));
  EXPECT_EQ(args.dtype[1], kernels::AnyArgs<2>::kNumber);
  EXPECT_EQ(args.dtype[2], static_cast<unsigned char>(DType::kFloat16));
}

// --- division by multiplication -----------------------------------------------------------------

std::uint32_t divide(std::uint32_t n, const kernels::Divider& d) {
  const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * d.magic) >> 32);
  return (high + n) >> d.shift;
}

TEST(DividerTest, IsExactBelowTwoToThe31) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> divisors = {
      1, 2, 3, 5, 7, 10, 641, 65535, 65536, 65537, (1u << 30) - 1, 1u << 30, (1u << 31) - 1};
  for (int i = 0; i < 200; ++i) divisors.push_back(random() % INT32_MAX + 1);
  for (const std::uint32_t d : divisors) {
    const kernels::Divider divider = make_divider(d);
    std::vector<std::uint32_t> numbers = {0, 1, d - 1, d, INT32_MAX, INT32_MAX - 1};
    for (int i = 0; i < 100; ++i) {
      const std::uint32_t multiple = static_cast<std::uint32_t>(random() % INT32_MAX) / d * d;
      numbers.insert(numbers.end(), {multiple, multiple + d - 1,
                                     static_cast<std::uint32_t>(random() % INT32_MAX)});
      if (multiple > 0) numbers.push_back(multiple - 1);
    }
    for (const std::uint32_t n : numbers)
      if (n <= INT32_MAX) {
        ASSERT_EQ(divide(n, divider), n / d) << n << " / " << d;
      }
  }
}

// --- rules --------------------------------------------------------------------------------------

TEST(RulesTest, ResultTypes) {
  const auto types = [](Rule rule, DType dtype) {
    const Types found = resolve_types(rule, dtype, "op");
    return std::pair(found.common, found.result);
  };
  using enum DType;
  EXPECT_EQ(types(Rule::kArithmetic, kBool), std::pair(kBool, kBool));
  EXPECT_EQ(types(Rule::kInt8, kBool), std::pair(kInt8, kInt8));
  EXPECT_EQ(types(Rule::kDivide, kInt8), std::pair(kFloat64, kFloat64));
  EXPECT_EQ(types(Rule::kDivide, kBFloat16), std::pair(kBFloat16, kBFloat16));
  EXPECT_EQ(types(Rule::kFloat, kUInt16), std::pair(kFloat32, kFloat32));
  EXPECT_EQ(types(Rule::kFloat, kComplex64), std::pair(kComplex64, kComplex64));
  EXPECT_EQ(types(Rule::kTest, kComplex64), std::pair(kComplex64, kBool));
  EXPECT_EQ(types(Rule::kPart, kComplex128), std::pair(kComplex128, kFloat64));
  EXPECT_EQ(types(Rule::kBits, kBool), std::pair(kBool, kBool));
  EXPECT_EQ(types(Rule::kInteger, kBool), std::pair(kInt8, kInt8));
}

TEST(RulesTest, Refusals) {
  const auto refused = [](Rule rule, DType dtype) {
    return message_of<InvalidArgument>([&] { resolve_types(rule, dtype, "op"); });
  };
  EXPECT_EQ(refused(Rule::kNoBool, DType::kBool),
            "op: not defined for dtype bool, expected a numeric dtype");
  EXPECT_EQ(refused(Rule::kReal, DType::kComplex64),
            "op: not defined for dtype complex64, expected a real dtype");
  EXPECT_EQ(refused(Rule::kBits, DType::kFloat32),
            "op: not defined for dtype float32, expected an integer dtype");
  EXPECT_EQ(refused(Rule::kTest, DType::kInt4),
            "op: int4 is a storage type; cast it first with astype");
}

TEST(NumberTest, IsGivenInTheComputeType) {
  const auto as = [](const Scalar& value, DType dtype, auto out) {
    const ScalarBytes bytes = compute_number(value, dtype, "add");
    std::memcpy(&out, bytes.bytes, sizeof out);
    return out;
  };
  EXPECT_EQ(as(std::int64_t{-3}, DType::kInt8, std::int32_t{}), -3);
  EXPECT_EQ(as(std::int64_t{200}, DType::kUInt8, std::uint32_t{}), 200u);
  EXPECT_EQ(as(0.1, DType::kFloat16, float{}), from_float16(to_float16(0.1)));
  EXPECT_EQ(as(1.0 + 1.0 / 256, DType::kBFloat16, float{}), 1.0f);  // rounded as it is stored
  EXPECT_EQ(as(std::int64_t{7}, DType::kFloat64, double{}), 7.0);
  EXPECT_EQ(as(true, DType::kInt64, std::int64_t{}), 1);
  EXPECT_THROW(compute_number(std::int64_t{300}, DType::kInt8, "add"), InvalidArgument);
}

TEST(ConcatTest, UsesTheWidestWords) {
  const auto plan = [](std::vector<std::int64_t> row_bytes, std::int64_t rows,
                       std::size_t alignment) {
    const ConcatPlan found = plan_concat(row_bytes, rows, alignment);
    return std::pair(static_cast<std::int64_t>(found.word_bytes), found.blocks);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(plan({256, 256, 256, 256}, 64, 512), Pair(16, 4));  // four of 64 x 64 float32
  EXPECT_EQ(plan({256, 8}, 64, 512), Pair(8, 3));
  EXPECT_EQ(plan({256, 0, 256}, 64, 4), Pair(4, 8));
  EXPECT_EQ(plan({3, 16}, 1, 256), Pair(1, 2));
  EXPECT_EQ(plan({0, 0}, 5, 256), Pair(16, 0));
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  EXPECT_EQ(plan({kMost, 1}, 1, 256), Pair(1, (std::int64_t{1} << 21) + 1));
  EXPECT_EQ(plan({kMost, 1}, 2, 256).second, 0);  // past 32-bit indices
}

TEST(ElementwiseTest, EveryOpIsInTheList) {
  std::size_t count = 0;
  for (const ElementwiseOp& op : elementwise_ops()) {
    EXPECT_EQ(&elementwise_op(op.id), &op);
    EXPECT_STREQ(op_list()[static_cast<std::size_t>(op.id)].name, op.name);
    EXPECT_GE(op.arity, 1);
    EXPECT_LE(op.arity, 4);
    ++count;
  }
  EXPECT_GT(count, 80u);
}

TEST(ElementwiseTest, ChecksComeBeforeAllocation) {
  const Array a = Array::empty({2, 3}, DType::kInt8, kCpu);
  const Array b = Array::empty({3, 2}, DType::kInt8, kCpu);
  EXPECT_EQ(message_of<InvalidArgument>([&] { add(a, b); }),
            "add: operands could not be broadcast together with shapes (2, 3) and (3, 2)");
  EXPECT_EQ(message_of<InvalidArgument>([&] { add(a, Scalar(std::int64_t{128})); }),
            "add: 128 does not fit in int8");
  EXPECT_EQ(message_of<InvalidArgument>([&] { sqrt(a, &b); }),
            "sqrt: operands could not be broadcast together with shapes (2, 3) and (3, 2)");
}

}  // namespace
}  // namespace gpk::ops::elementwise
