// Counts per bin. Bins are edges[b] <= x < edges[b + 1], the last one closed; `direct`: x is the
// bin. edges: doubles, each exactly representable in the user-visible dtype. Integer atomics only,
// privatised in shared memory where the bins fit (shared_bins copies of num_bins), so results do
// not depend on order. bin_kernel writes each element's bin instead (num_bins: none), for weighted
// histograms: sorted by bin, the weights of a bin are summed in pieces by a fixed tree of doubles.
// Grid-stride loops unless noted otherwise.
#pragma once

#include "sorting/key.cuh"
#include "sorting/number.cuh"

namespace gpk {

// The bin of x, or num_bins.
__device__ __forceinline__ long long find_bin(const HistogramArgs& args, double x) {
  const long long bins = args.num_bins;
  if (args.direct != 0)
    return x >= 0.0 && x < static_cast<double>(bins) ? static_cast<long long>(x) : bins;
  const double* edges = args.edges;
  if (!(x >= edges[0] && x <= edges[bins])) return bins;
  if (args.uniform != 0) {
    const double place = (x - edges[0]) / (edges[bins] - edges[0]) * static_cast<double>(bins);
    long long bin = place >= 0.0 ? static_cast<long long>(place) : 0;
    bin = bin < bins ? bin : bins - 1;
    while (bin > 0 && x < edges[bin]) --bin;
    while (bin < bins - 1 && x >= edges[bin + 1]) ++bin;
    return bin;
  }
  long long low = 0;  // the last edge not above x
  long long high = bins;
  while (high - low > 1) {
    const long long middle = (low + high) / 2;
    if (x >= edges[middle])
      low = middle;
    else
      high = middle;
  }
  return low;
}

__global__ void __launch_bounds__(256) histogram_kernel(const HistogramArgs args) {
  extern __shared__ unsigned copies[];
  const long long in_shared = args.num_bins * args.num_copies;
  for (long long i = threadIdx.x; i < in_shared; i += blockDim.x) copies[i] = 0;
  __syncthreads();
  unsigned* own = copies;
  if (args.num_copies != 0) own += threadIdx.x / 32 % args.num_copies * args.num_bins;
  uint64* counts = static_cast<uint64*>(args.out);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.n;
       i += step) {
    const long long bin = find_bin(args, load_number(args.data, i, args.code));
    if (bin == args.num_bins) continue;
    if (args.num_copies != 0)
      atomicAdd(own + bin, 1u);
    else
      atomicAdd(counts + bin, 1ull);
  }
  if (args.num_copies == 0) return;
  __syncthreads();
  for (long long bin = threadIdx.x; bin < args.num_bins; bin += blockDim.x) {
    uint64 sum = 0;
    for (unsigned c = 0; c < args.num_copies; ++c) sum += copies[c * args.num_bins + bin];
    if (sum != 0) atomicAdd(counts + bin, sum);
  }
}

__global__ void __launch_bounds__(256) bin_kernel(const HistogramArgs args) {
  unsigned* bins = static_cast<unsigned*>(args.out);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < args.n;
       i += step)
    bins[i] = static_cast<unsigned>(find_bin(args, load_number(args.data, i, args.code)));
}

// Smallest and largest key of the data: range[0] = complement of the smallest (so that zero is the
// identity for both), range[1] = the largest.
template <class K>
__global__ void __launch_bounds__(256)
    key_range_kernel(const K* data, uint64* range, long long n, const KeyOrder order) {
  uint64 low = 0;
  uint64 high = 0;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step) {
    const uint64 key = encode_key(data[i], order, false);
    low = low > ~key ? low : ~key;
    high = high > key ? high : key;
  }
  for (int step_lanes = 16; step_lanes > 0; step_lanes /= 2) {
    const uint64 other_low = __shfl_xor_sync(~0u, low, step_lanes);
    const uint64 other_high = __shfl_xor_sync(~0u, high, step_lanes);
    low = low > other_low ? low : other_low;
    high = high > other_high ? high : other_high;
  }
  if (threadIdx.x % 32 != 0) return;
  atomicMax(range, low);
  atomicMax(range + 1, high);
}

// The two results of key_range_kernel decoded to elements; one thread.
template <class K>
__global__ void range_ends_kernel(const uint64* range, K* ends, const KeyOrder order) {
  ends[0] = decode_key(static_cast<K>(~range[0]), order);
  ends[1] = decode_key(static_cast<K>(range[1]), order);
}

// numpy.linspace(low, high, num_bins + 1): in the dtype of the data's own range, every step rounded
// to it, or in float64. A range of one value is widened by one half on each side.
__global__ void __launch_bounds__(256) edges_kernel(const EdgesArgs args) {
  const unsigned code =
      args.ends == nullptr ? static_cast<unsigned>(kCode<DType::kFloat64>) : args.out_code;
  double low = args.ends == nullptr ? args.low : load_number(args.ends, 0, args.ends_code);
  double high = args.ends == nullptr ? args.high : load_number(args.ends, 1, args.ends_code);
  if (low == high) {
    low = round_number(__dadd_rn(low, -0.5), code);
    high = round_number(__dadd_rn(high, 0.5), code);
  }
  const double width = round_number(__dadd_rn(high, -low), code);
  const double step = round_number(width / static_cast<double>(args.num_bins), code);
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       i <= args.num_bins; i += stride) {
    const double from_low = round_number(__dmul_rn(static_cast<double>(i), step), code);
    const double exact = i == args.num_bins ? high : __dadd_rn(from_low, low);
    const double edge = round_number(round_number(exact, code), args.out_code);
    args.edges[i] = edge;
    store_number(args.out, i, args.out_code, edge);
  }
}

__global__ void __launch_bounds__(256)
    to_double_kernel(const void* data, double* out, long long n, unsigned code) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step)
    out[i] = load_number(data, i, code);
}

__device__ __forceinline__ long long first_not_below(const unsigned* sorted, long long n,
                                                     unsigned bin) {
  long long low = 0;
  while (n > 0) {
    const long long half = n / 2;
    const bool below = sorted[low + half] < bin;
    low = below ? low + half + 1 : low;
    n = below ? n - half - 1 : half;
  }
  return low;
}

// Grid: num_bins * pieces blocks of 128 threads, each one piece of one bin.
__global__ void __launch_bounds__(128) segment_sum_kernel(const SegmentSumArgs args) {
  __shared__ double sums[128];
  const unsigned bin = blockIdx.x / args.pieces;
  const unsigned piece = blockIdx.x % args.pieces;
  const long long begin = first_not_below(args.bins, args.n, bin);
  const long long end = begin + first_not_below(args.bins + begin, args.n - begin, bin + 1);
  const long long per_piece = (end - begin + args.pieces - 1) / args.pieces;
  const long long first = begin + piece * per_piece;
  const long long last = first + per_piece < end ? first + per_piece : end;
  double sum = 0.0;
  for (long long i = first + threadIdx.x; i < last; i += 128)
    sum = __dadd_rn(sum, load_number(args.weights, args.order[i], args.code));
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half)
      sums[threadIdx.x] = __dadd_rn(sums[threadIdx.x], sums[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0) args.partial[blockIdx.x] = sums[0];
}

__global__ void __launch_bounds__(256)
    segment_total_kernel(const double* partial, void* out, long long num_bins, unsigned pieces,
                         unsigned code) {
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long bin = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
       bin < num_bins; bin += step) {
    double sum = 0.0;
    for (unsigned p = 0; p < pieces; ++p) sum = __dadd_rn(sum, partial[bin * pieces + p]);
    store_number(out, bin, code, sum);
  }
}

// density[b] = counts[b] / (edges[b + 1] - edges[b]) / sum(counts); one block of 256 threads.
__global__ void __launch_bounds__(256)
    density_kernel(const void* counts, const double* edges, double* density, long long num_bins,
                   unsigned code) {
  __shared__ double sums[256];
  double sum = 0.0;
  for (long long b = threadIdx.x; b < num_bins; b += 256)
    sum = __dadd_rn(sum, load_number(counts, b, code));
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half)
      sums[threadIdx.x] = __dadd_rn(sums[threadIdx.x], sums[threadIdx.x + half]);
    __syncthreads();
  }
  for (long long b = threadIdx.x; b < num_bins; b += 256)
    density[b] = load_number(counts, b, code) / __dadd_rn(edges[b + 1], -edges[b]) / sums[0];
}

}  // namespace gpk
