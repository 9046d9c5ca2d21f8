#include "ops/conv/plan.h"

#include <gtest/gtest.h>

#include "ops/recurrent/plan.h"

namespace gpk::ops {
namespace {

DeviceTraits h200() {
  DeviceTraits traits;
  traits.sm = 90;
  traits.multiprocessor_count = 132;
  traits.shared_per_block_optin_bytes = 232448;
  traits.shared_per_sm_bytes = 233472;
  traits.cooperative_launch = true;
  return traits;
}

conv::ConvDesc sequence(std::int64_t in, std::int64_t out, std::int64_t length, std::int64_t taps,
                        std::int64_t stride = 1, std::int64_t dilation = 1) {
  conv::ConvDesc desc;
  desc.dtype = DType::kBFloat16;
  desc.in_channels = in;
  desc.out_channels = out;
  desc.in_w = length;
  desc.kernel_w = taps;
  desc.stride_w = stride;
  desc.dilation_w = dilation;
  desc.pad_w = dilation * (taps - 1) / 2;
  desc.out_w = (length + 2 * desc.pad_w - dilation * (taps - 1) - 1) / stride + 1;
  return desc;
}

std::string plan(const conv::ConvDesc& desc, bool general = false) {
  return to_string(conv::plan_conv(desc, h200(), general));
}

TEST(ConvPlan, TilesFillTheGpu) {
  EXPECT_EQ(plan(sequence(1280, 1280, 3000, 3, 2)), "mma(128x128, window=1x257, 116736 bytes)");
  EXPECT_EQ(plan(sequence(384, 384, 3000, 3, 2)), "mma(64x64, window=1x129, 59392 bytes)");
  EXPECT_EQ(plan(sequence(128, 128, 60000, 11, 1, 5)), "mma(128x128, window=1x178, 96256 bytes)");
}

TEST(ConvPlan, FewChannelsOfAGroupRunWithoutTensorCores) {
  conv::ConvDesc desc = sequence(1, 1, 2048, 4);
  desc.groups = 1536;
  EXPECT_EQ(plan(desc), "direct(lanes=256, chunks=2)");
  desc.out_w = 1;
  EXPECT_EQ(plan(desc), "direct(lanes=1, chunks=1)");
}

TEST(ConvPlan, PhasesOfATransposedConvolutionAreRows) {
  conv::ConvDesc desc = sequence(512, 256, 600, 20);
  desc.transposed = true;
  desc.stride_w = 10;
  desc.pad_w = 5;
  desc.out_w = 599 * 10 - 10 + 20;
  const conv::ConvPlan found = conv::plan_conv(desc, h200());
  EXPECT_EQ(found.engine, conv::ConvEngine::kMma);
  EXPECT_EQ(found.tiles.rows, 2560);
  EXPECT_EQ(found.tiles.taps_w, 2);
  EXPECT_EQ(found.tiles.positions_w, 601);
  EXPECT_EQ(found.tiles.out_first, -5);
  desc.dilation_w = 2;  // phases of different numbers of taps
  EXPECT_EQ(conv::plan_conv(desc, h200()).engine, conv::ConvEngine::kDirect);
}

TEST(ConvPlan, WindowsThatDoNotFitAndTheBundle) {
  EXPECT_EQ(conv::plan_conv(sequence(64, 64, 60000, 3, 16), h200()).engine,
            conv::ConvEngine::kDirect);
  EXPECT_EQ(plan(sequence(128, 128, 60000, 3), true), "mma(64x64, window=1x66, 43008 bytes)");
  conv::ConvDesc image = sequence(64, 64, 50, 3);
  image.in_h = image.out_h = 50;
  image.kernel_h = 3;
  EXPECT_EQ(conv::plan_conv(image, h200()).engine, conv::ConvEngine::kMma);
  EXPECT_EQ(conv::plan_conv(image, h200(), true).engine, conv::ConvEngine::kDirect);
}

TEST(ConvPlan, EveryTileFitsItsGpu) {
  DeviceTraits small = h200();
  small.shared_per_block_optin_bytes = 101376;
  small.shared_per_sm_bytes = 102400;
  for (const std::int64_t taps : {1, 3, 11, 31})
    for (const std::int64_t stride : {1, 2, 5})
      for (const DeviceTraits& traits : {h200(), small}) {
        const conv::ConvPlan found =
            conv::plan_conv(sequence(256, 256, 5000, taps, stride, 3), traits);
        EXPECT_LE(found.shared_bytes, traits.shared_per_block_optin_bytes);
        EXPECT_EQ(found.tiles.pitch % 8, 0);
      }
}

std::string layer(std::int64_t batch, std::int64_t hidden, int directions, int num_sms = 132) {
  return to_string(recurrent::plan_layer({batch, 500, hidden, directions}, h200(), num_sms));
}

TEST(LayerPlan, WeightsStayInRegistersWhereAllBlocksAreResident) {
  EXPECT_EQ(layer(1, 512, 2), "persistent(cols=16, together, batch=1)");
  EXPECT_EQ(layer(4, 1024, 1), "persistent(cols=32, together, batch=4)");
  EXPECT_EQ(layer(1, 1024, 2), "persistent(cols=32, one by one, batch=1)");
  EXPECT_EQ(layer(1, 512, 2, 66), "persistent(cols=16, one by one, batch=1)");
}

TEST(LayerPlan, ElseALaunchForEachStep) {
  EXPECT_EQ(layer(1, 512, 2, 40), "stepwise(cols=16, together, batch=1)");
  EXPECT_EQ(layer(1, 2048, 1), "stepwise(cols=0, together, batch=1)");
  DeviceTraits traits = h200();
  traits.cooperative_launch = false;
  EXPECT_FALSE(recurrent::plan_layer({1, 5, 64, 1}, traits, 132).persistent);
  EXPECT_EQ(recurrent::plan_layer({1, 5, 64, 1}, h200(), 132, true).cols, 0);
}

TEST(LayerPlan, SamplesOfALaunchFitSharedMemory) {
  for (const std::int64_t hidden : {1, 100, 512, 1024, 3000})
    for (const std::int64_t batch : {1, 7, 32, 100}) {
      const auto found = recurrent::plan_layer({batch, 5, hidden, 2}, h200(), 132);
      EXPECT_GE(found.batch, 1);
      EXPECT_LE(found.batch, kernels::kRecurrentMaxBatch);
      EXPECT_LE(recurrent::shared_bytes(hidden, found.batch), h200().shared_per_block_optin_bytes);
    }
}

}  // namespace
}  // namespace gpk::ops
