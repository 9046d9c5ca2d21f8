#include "base/ceil_div.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/conv/kernels.h"
#include "ops/conv/launch.h"
#include "ops/device_address.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"
#include "plan/key_builder.h"

namespace gpk::ops::conv {
namespace {

constexpr auto kMmaKernel = static_cast<std::uint8_t>(ConvKernel::kMma);
constexpr auto kPackKernel = static_cast<std::uint8_t>(ConvKernel::kPack);
constexpr std::int64_t kChunkBytes = 16;

struct MmaVariant {
  DType dtype;
  bool precise;  // float32, not TF32
  MmaTile tile;
  bool image;
};

std::uint64_t pack(const MmaVariant& v) {
  return plan::KeyBuilder()
      .field("dtype", v.dtype, plan::kDTypeBits)
      .field("precise", v.precise, 1)
      .field("tile", v.tile, 1)
      .field("image", v.image, 1)
      .key();
}

jit::KernelSpec mma_spec(const MmaVariant& v) {
  const MmaShape shape = shape_of(v.tile);
  jit::KernelSpec spec;
  spec.file = "conv/conv_mma.cuh";
  spec.op = "conv";
  spec.kernel = kMmaKernel;
  spec.variant = pack(v);
  spec.bundled = v.tile == MmaTile::k64x64 && !v.image;
  // Two sets of sums leave room for half as many blocks.
  const int blocks = v.precise ? shape.blocks / 2 : shape.blocks;
  spec.expression =
      cat("gpk::conv_mma<", info(v.dtype).cuda_name, ", ", v.precise ? "true" : "false", ", ",
          shape.m, ", ", shape.n, ", ", v.image ? 16 : shape.n, ", ", shape.warp_m, ", ",
          shape.warp_n, ", ", kMmaStages, ", ", blocks, ">");
  return spec;
}

std::uint64_t pack_key(DType dtype, bool transposed) {
  return plan::KeyBuilder()
      .field("dtype", dtype, plan::kDTypeBits)
      .field("transposed", transposed, 1)
      .key();
}

jit::KernelSpec pack_spec(DType dtype, bool transposed) {
  jit::KernelSpec spec;
  spec.file = "conv/conv_pack.cuh";
  spec.op = "conv";
  spec.kernel = kPackKernel;
  spec.variant = pack_key(dtype, transposed);
  spec.expression =
      cat("gpk::conv_pack<", info(dtype).cuda_name, ", ", transposed ? "true" : "false", ">");
  return spec;
}

// The weights in the order that conv_mma reads them.
Array packed_weights(const ConvCall& call, const kernels::ConvTiles& tiles) {
  kernels::ConvPackArgs args{};
  args.in_channels = static_cast<int>(call.desc.in_channels);
  args.out_channels = static_cast<int>(call.desc.out_channels);
  args.taps = static_cast<int>(call.desc.taps());
  args.phases = tiles.phases;
  args.gemm_taps = tiles.taps_h * tiles.taps_w;
  args.k_blocks = tiles.k_blocks;
  args.num_chunks = call.desc.groups * tiles.k_blocks * args.gemm_taps * tiles.rows *
                    (kernels::kConvLineBytes / kChunkBytes);
  const auto per_chunk = kChunkBytes / static_cast<std::int64_t>(itemsize(call.desc.dtype));
  const Array packed =
      Array::empty({args.num_chunks * per_chunk}, call.desc.dtype, call.out.device(), call.op);
  args.w = address(call.w);
  args.packed = address(packed);
  const bool transposed = call.desc.transposed;
  const Kernel& code = kernel(Context::get(call.out.device().index),
                              {Family::conv, kPackKernel, pack_key(call.desc.dtype, transposed)},
                              [&] { return pack_spec(call.desc.dtype, transposed); });
  void* params[] = {&args};
  submit(code, grid_1d(args.num_chunks, 256, 256), {&call.w, &packed}, params);
  return packed;
}

// Whether rows of 16 bytes start at aligned addresses.
bool is_wide(const Array& array) {
  const auto vec = static_cast<std::int64_t>(16 / itemsize(array.dtype()));
  if (reinterpret_cast<std::uintptr_t>(array.data()) % 16 != 0 || array.shape()[3] % vec != 0)
    return false;
  for (int axis = 0; axis < 3; ++axis)
    if (array.shape()[axis] > 1 && array.strides()[axis] % vec != 0) return false;
  return true;
}

}  // namespace

void launch_mma(const ConvCall& call, const ConvPlan& plan) {
  const Array packed = packed_weights(call, plan.tiles);
  const MmaVariant variant{call.desc.dtype, call.desc.dtype == DType::kFloat32 && !call.desc.tf32,
                           plan.tile, plan.image};
  const Kernel& code =
      kernel(Context::get(call.out.device().index), {Family::conv, kMmaKernel, pack(variant)},
             [&] { return mma_spec(variant); });
  kernels::ConvArgs args = args_of(call);
  args.w = address(packed);
  kernels::ConvTiles tiles = plan.tiles;
  tiles.wide = tiles.phases == 1 && tiles.out_first == 0 && is_wide(call.out) &&
               (!call.residual || is_wide(*call.residual));
  LaunchConfig config;
  config.grid[0] = static_cast<unsigned>(call.desc.batch * tiles.tiles_h * tiles.tiles_w);
  config.grid[1] = static_cast<unsigned>(tiles.tiles_m * call.desc.groups);
  config.block[0] = static_cast<unsigned>(shape_of(plan.tile).threads);
  config.shared_bytes = plan.shared_bytes;
  void* params[] = {&args, &tiles};
  submit(code, config,
         {&call.x, &packed, call.bias ? &*call.bias : nullptr,
          call.residual ? &*call.residual : nullptr, &call.out},
         params);
}

void enumerate_mma(std::vector<jit::KernelSpec>& specs) {
  for (const DType dtype : kDTypes) {
    for (const bool transposed : {false, true}) specs.push_back(pack_spec(dtype, transposed));
    for (const bool precise : {false, true}) {
      if (precise && dtype != DType::kFloat32) continue;
      for (const MmaTile tile : {MmaTile::k128x128, MmaTile::k64x64})
        for (const bool image : {false, true})
          specs.push_back(mma_spec({dtype, precise, tile, image}));
    }
  }
}

}  // namespace gpk::ops::conv
