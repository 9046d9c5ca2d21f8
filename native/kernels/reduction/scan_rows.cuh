// out[r, i] = in[r, 0] op ... op in[r, i], a warp per row, which walks along it and keeps the carry
// in the wider type. Rows are contiguous; kAligned: all rows of `in` and `out` are 16-byte aligned.
// Grid: ceil(rows / 8).
#pragma once

#include "reduction/scan.cuh"

namespace gpk {

template <class In, class Op, bool kAligned>
__global__ void __launch_bounds__(kBlock, 3) scan_rows(const ScanArgs args) {
  using Part = Segment<In, Op, kScanUnroll<In, kAligned>, kScanVec<In, kAligned>>;
  using Acc = typename Op::Acc;
  const Op op{args.skip_nan};
  const int lane = threadIdx.x % 32;
  const long long row = static_cast<long long>(blockIdx.x) * (kBlock / 32) + threadIdx.x / 32;
  if (row >= args.rows) return;
  const In* in = static_cast<const In*>(args.in) + row * args.in_row;
  auto* out = static_cast<typename Part::Out*>(args.out) + row * args.out_row;
  Acc before = op.init();
  if (args.initial && lane == 0) out[-1] = convert<typename Part::Out>(before);
  for (long long at = 0; at < args.n; at += Part::kElements) {
    Part part;
    part.load(op, in + at, args.n - at, lane);
    const Acc whole = convert<Acc>(part.scan(lane));
    part.store(out + at, before, args.n - at, lane);
    before = Op::combine(before, whole);
  }
}

}  // namespace gpk
