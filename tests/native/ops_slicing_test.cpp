// Elementwise kernels under a gate that keeps kernels short: whole blocks at a time, the same bits.
#include <cstring>
#include <numeric>

#include "core/stream_tenant.h"
#include "device/host_copy.h"
#include "device/launch_gate.h"
#include "fake_driver/core_fixture.h"
#include "ops/elementwise/map.h"

namespace gpk {
namespace {

constexpr std::int64_t kCount = 1'000'003;

class SlicingTest : public CoreTest {
 protected:
  // out[i] = in[i] * number, as map_dense has its arguments.
  struct Args {
    const float* in[2];
    float* out;
    alignas(16) unsigned char numbers[2][16];
  };
  static_assert(sizeof(Args) == 64);

  SlicingTest() {
    fake::set_param_sizes("scale_map", {sizeof(Args), sizeof(std::int64_t)});
    fake::set_body("scale_map", [](const fake::Launch&, void** params) {
      Args args;
      std::int64_t n = 0;
      std::memcpy(&args, params[0], sizeof args);
      std::memcpy(&n, params[1], sizeof n);
      float factor = 0.0f;
      std::memcpy(&factor, args.numbers[1], sizeof factor);
      for (std::int64_t i = 0; i < n; ++i) args.out[i] = args.in[0][i] * factor;
    });
  }

  static std::shared_ptr<Stream> stream_with_slices(std::int64_t slice_ns) {
    auto stream = Stream::create_in(kGpu, nullptr, 0);
    auto tenant = std::make_unique<StreamTenant>();
    device::LaunchGate::Options options;
    options.slice_ns = slice_ns;
    tenant->gate = std::make_unique<device::LaunchGate>(Context::get(0), stream->handle(), options);
    stream->set_tenant(std::move(tenant));
    return stream;
  }

  // The launches it took; the result is checked.
  static std::vector<fake::Launch> run(const std::shared_ptr<Stream>& stream) {
    const StreamScope scope(stream);
    std::vector<float> host(kCount);
    std::iota(host.begin(), host.end(), 1.0f);
    const Array in = device::from_host(host.data(), {kCount}, DType::kFloat32, kGpu);
    const Array out = Array::empty({kCount}, DType::kFloat32, kGpu);
    ops::elementwise::MapOperand operands[2];
    operands[0].array = &in;
    const float factor = 3.0f;
    std::memcpy(operands[1].number.bytes, &factor, sizeof factor);
    ops::elementwise::MapPlan plan;
    plan.vec = 4;
    plan.kinds = 2u << 2;
    plan.items = kCount;
    const std::size_t before = fake::launches().size();
    ops::elementwise::launch_map(*load_kernel("scale_map"), plan, {}, operands, out);
    std::vector<float> back(kCount);
    device::to_host(out, back.data());
    for (std::int64_t i = 0; i < kCount; ++i)
      if (back[static_cast<std::size_t>(i)] != host[static_cast<std::size_t>(i)] * 3.0f) {
        ADD_FAILURE() << "element " << i;
        break;
      }
    const auto all = fake::launches();
    return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
  }
};

TEST_F(SlicingTest, OneLaunchWithoutAGate) {
  EXPECT_EQ(run(Stream::default_for(kGpu)).size(), 1u);
  EXPECT_EQ(run(stream_with_slices(0)).size(), 1u);
  EXPECT_EQ(run(stream_with_slices(1'000'000'000)).size(), 1u);
}

TEST_F(SlicingTest, SlicesOfWholeBlocks) {
  const auto launches = run(stream_with_slices(1000));  // about 2 MB each, of 8 MB
  ASSERT_EQ(launches.size(), 5u);
  unsigned blocks = 0;
  for (const fake::Launch& launch : launches) {
    blocks += launch.grid[0];
    EXPECT_NEAR(launch.grid[0], launches[0].grid[0], 1);
    EXPECT_EQ(launch.block[0], 256u);
  }
  EXPECT_EQ(blocks, (kCount + 2047) / 2048);
}

TEST_F(SlicingTest, ASliceIsABlockAtLeast) {
  const auto launches = run(stream_with_slices(1));
  EXPECT_EQ(launches.size(), static_cast<std::size_t>((kCount + 2047) / 2048));
}

}  // namespace
}  // namespace gpk
