#include "ops/fft/passes.h"

#include <algorithm>
#include <limits>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "ops/device_address.h"
#include "ops/kernel_table.h"
#include "ops/submit.h"

namespace gpk::ops::fft {
namespace {

using kernels::FftArgs;
using kernels::FftCoord;
using kernels::FftTwist;

void add_coord(FftArgs& args, const FftCoord& coord) {
  if (coord.size == 1 && args.num_coords > 0) return;
  if (args.num_coords == kernels::kFftMaxCoords)
    throw Error("fft_execute: more coordinates than a kernel takes");
  args.coords[args.num_coords++] = coord;
}

void add_coords(FftArgs& args, const std::vector<FftCoord>& coords) {
  for (const FftCoord& coord : coords) add_coord(args, coord);
}

// `per_block` of coords[0] in a block.
void submit(const FftTarget& target, FftKernel which, const FftPass& pass, FftArgs& args,
            int per_block, std::initializer_list<const Array*> arrays) {
  args.tiles = static_cast<unsigned>(ceil_div(args.coords[0].size, per_block));
  std::int64_t blocks = args.tiles;
  for (int d = 1; d < args.num_coords; ++d) blocks *= args.coords[d].size;
  if (blocks > std::numeric_limits<int>::max())
    throw InvalidArgument(cat(target.op, ": x has too many transforms for one call"));
  FftLaunch launch{which, target.wide, pass, args, {}, {arrays.begin(), arrays.size()}};
  launch.config.grid[0] = static_cast<unsigned>(blocks);
  launch.config.block[0] = static_cast<unsigned>(pass.shape.threads);
  launch.config.shared_bytes = pass.shape.shared_bytes;
  target.submit(launch);
}

void launch_pass(const FftTarget& target, const FftPass& pass, FftArgs& args,
                 std::initializer_list<const Array*> arrays) {
  const FftShape& shape = pass.shape;
  args.n = shape.n;
  args.group = shape.group;
  args.pitch = shape.pitch;
  args.num_stages = shape.num_stages;
  std::copy_n(shape.radices.begin(), shape.num_stages, args.radices);
  args.in_side = pass.in;
  args.out_side = pass.out;
  args.fetch = pass.fetch;
  args.put = pass.put;
  if (pass.twiddle) args.twist = FftTwist::kTwiddle;
  const FftKernel which = !shape.block       ? FftKernel::kGeneral
                          : args.rounds == 2 ? FftKernel::kBluestein
                                             : FftKernel::kBlock;
  submit(target, which, pass, args, shape.group, arrays);
}

// From and to scratch arrays of `n` elements a transform; nothing happens to them.
FftArgs plain_args(std::int64_t n) {
  FftArgs args{};
  args.in_stride = args.out_stride = 1;
  args.valid = args.count = static_cast<int>(n);
  args.sign = args.scale_re = args.scale_im = 1.0;
  args.in_step = args.out_step = 1;
  args.rounds = 1;
  return args;
}

void set_input(FftArgs& args, const FftEnds& ends) {
  args.in = address(ends.in);
  args.in_stride = ends.in_stride;
  args.in_pairs = ends.in_pairs ? 1 : 0;
  args.valid = ends.valid;
  args.length = ends.length;
  args.chirp_n = ends.chirp_n;
  args.chirp = ends.chirp_in ? 1 : 0;
  args.sign = ends.sign;
}

void set_output(FftArgs& args, const FftEnds& ends) {
  args.out = address(ends.out);
  args.table = address(ends.table);
  args.out_stride = ends.out_stride;
  args.out_pairs = ends.out_pairs ? 1 : 0;
  args.count = ends.count;
  args.chirp_n = ends.chirp_n;
  args.twist = ends.twist;
  args.scale_re = ends.scale_re;
  args.scale_im = ends.scale_im;
}

void launch_one(const FftTarget& target, const FftPass& pass, const FftEnds& ends) {
  FftArgs args = plain_args(pass.shape.n);
  set_input(args, ends);
  set_output(args, ends);
  args.rounds = ends.rounds;
  add_coords(args, ends.coords);
  launch_pass(target, pass, args, {ends.in, ends.out, ends.table});
}

}  // namespace

void submit_to_gpu(FftLaunch& launch) {
  const auto* const some = *std::find_if(launch.arrays.begin(), launch.arrays.end(),
                                         [](const Array* array) { return array != nullptr; });
  const Kernel& code = kernel(Context::get(some->device().index),
                              {Family::fft, static_cast<std::uint8_t>(launch.kernel),
                               pack(launch.kernel, launch.wide, launch.pass)},
                              [&] { return make_spec(launch.kernel, launch.wide, launch.pass); });
  void* params[] = {&launch.args};
  ops::submit(code, launch.config, launch.arrays, params);
}

std::vector<FftCoord> from_scratch(std::vector<FftCoord> coords, std::int64_t length) {
  for (FftCoord& coord : coords) {
    coord.in = length;
    length *= coord.size;
  }
  return coords;
}

std::vector<FftCoord> to_scratch(std::vector<FftCoord> coords, std::int64_t length) {
  for (FftCoord& coord : coords) {
    coord.out = length;
    length *= coord.size;
  }
  return coords;
}

Array scratch_for(const FftTarget& target, const std::vector<FftCoord>& coords,
                  std::int64_t length) {
  for (const FftCoord& coord : coords) length *= coord.size;
  return Array::empty({length}, target.wide ? DType::kComplex128 : DType::kComplex64, target.device,
                      target.op);
}

// n = n1 n2 n3 (or n1 n3): columns of n1 times twiddles; then, in each of the n1 rows, columns of
// n2 times twiddles; then rows of n3, whose results are stored transposed: output k1 + n1 k2 + n1
// n2 k3.
void launch_passes(const FftTarget& target, const std::vector<FftPass>& passes,
                   const FftEnds& ends) {
  if (passes.size() == 1) {
    launch_one(target, passes[0], ends);
    return;
  }
  const bool three = passes.size() == 3;
  const std::int64_t n1 = passes[0].shape.n;
  const std::int64_t n2 = three ? passes[1].shape.n : 1;
  const std::int64_t n3 = passes.back().shape.n;
  const std::int64_t n = n1 * n2 * n3;
  const Array scratch = scratch_for(target, ends.coords, n);

  FftArgs first = plain_args(n);
  set_input(first, ends);
  first.out = address(scratch);
  first.in_step = first.out_step = static_cast<unsigned>(n2 * n3);
  first.root = static_cast<unsigned>(n);
  add_coord(first, {n2 * n3, 0, 0, 1, 1});
  add_coords(first, to_scratch(ends.coords, n));
  launch_pass(target, passes[0], first, {ends.in, &scratch});

  if (three) {
    FftArgs second = plain_args(n);
    second.in = address(scratch);
    second.out = address(scratch);
    second.in_step = second.out_step = static_cast<unsigned>(n3);
    second.root = static_cast<unsigned>(n2 * n3);
    add_coord(second, {n3, 0, 0, 1, 1});
    add_coord(second, {n1, n2 * n3, n2 * n3, 0, 0});
    add_coords(second, from_scratch(to_scratch(ends.coords, n), n));
    launch_pass(target, passes[1], second, {&scratch});
  }

  FftArgs last = plain_args(n);
  last.in = address(scratch);
  set_output(last, ends);
  last.out_step = static_cast<unsigned>(n1 * n2);
  add_coord(last, {n1, n2 * n3, 0, 0, 1});
  add_coord(last, {n2, n3, 0, 0, static_cast<unsigned>(n1)});
  add_coords(last, from_scratch(ends.coords, n));
  launch_pass(target, passes.back(), last, {&scratch, ends.out, ends.table});
}

void launch_merge(const FftTarget& target, int n, const FftEnds& ends) {
  FftArgs args = plain_args(n + 1);
  args.out = address(ends.out);
  args.out_stride = ends.out_stride;
  args.n = n;
  args.scale_re = ends.scale_re;
  args.scale_im = ends.scale_im;
  add_coord(args, {n / 2 + 1, 0, 0, 0, 0});
  add_coords(args, ends.coords);
  FftPass pass;
  pass.shape.threads = kernels::kFftMergeThreads;
  submit(target, FftKernel::kMerge, pass, args, kernels::kFftMergeThreads, {ends.out});
}

}  // namespace gpk::ops::fft
