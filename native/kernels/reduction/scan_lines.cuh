// out[..., i, ...] = in[..., 0, ...] op ... op in[..., i, ...], arbitrary strides and dtype. A
// thread walks along one chunk of one line; adjacent threads have adjacent lines.
// Several chunks per line: a first pass (args.only_totals) writes the total of each chunk to
// totals[line][chunk], a scan turns them into running totals, and the second pass starts from
// those.
// Grid: lines * chunks threads. Everything in float64 / int64 / complex128.
#pragma once

#include "reduction/layout.cuh"

namespace gpk {

constexpr int kBlock = ScanArgs::kBlock;

template <class Op>
__global__ void __launch_bounds__(kBlock) scan_lines(const LineArgs args) {
  constexpr int kU = 4;
  using Acc = typename Op::Acc;
  const Op op{args.skip_nan};
  long long chunk = static_cast<long long>(blockIdx.x) * kBlock + threadIdx.x;
  if (chunk >= args.layout.kept * args.num_chunks) return;
  const long long line = split_index(chunk, args.layout.kept);
  if (args.only_totals && chunk == args.num_chunks - 1) return;
  long long in_at;
  long long out_at;
  kept_offsets(args.layout, args.layout.num_kept, line, in_at, out_at);
  Acc* totals = static_cast<Acc*>(args.totals) + line * args.num_chunks;
  Acc acc = op.init();
  if (!args.only_totals && chunk > 0) acc = totals[chunk - 1];
  if (args.initial && !args.only_totals && chunk == 0)
    store_any(args.out, out_at - args.out_step, acc, args.out_code);
  const long long begin = chunk * args.chunk;
  const long long end = begin + args.chunk < args.n ? begin + args.chunk : args.n;
  for (long long i = begin; i < end; i += kU) {
    long long at[kU];
#pragma unroll
    for (int u = 0; u < kU; ++u) at[u] = in_at + (i + u < end ? i + u : i) * args.in_step;
    typename Op::Value x[kU];
    load_any<Op>(args.in, args.in_code, at, x);
#pragma unroll
    for (int u = 0; u < kU; ++u) {
      if (i + u >= end) break;
      if (!(args.skip_nan && is_nan(x[u]))) acc = Op::combine(acc, convert<Acc>(x[u]));
      if (!args.only_totals)
        store_any(args.out, out_at + (i + u) * args.out_step, acc, args.out_code);
    }
  }
  if (args.only_totals) totals[chunk] = acc;
}

}  // namespace gpk
