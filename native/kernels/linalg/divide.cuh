// Divide and conquer of real symmetric tridiagonal matrices (Cuppen; Gu and Eisenstat). Torn at
// element `off` between two halves, a merge is diag(d) + rho z z^T: small z and near-equal d are
// deflated, roots of the secular equation 1 + rho sum z_i^2 / (d_i - x) give the eigenvalues, and z
// recomputed from the roots gives eigenvectors that are orthogonal to working precision. Numbers of
// the merge are double for both dtypes. Nothing is read back: the number of roots stays here, and
// eigenvectors are full matrices (rows of u, of each half of the merge), unit vectors where
// deflated.
#pragma once

#include "linalg/matrix.cuh"

namespace gpk {

inline constexpr int kDivideWarps = kDivideThreads / 32;
inline constexpr int kDivideWindow = 512;  // slots in shared memory

// A merge: places of its own in all fields.
struct Merge {
  const DivideArgs& args;
  int order, index, first;
  long long batch;

  __device__ __forceinline__ Merge(const DivideArgs& given, int at)
      : args(given), order(2 * given.half) {
    const int merges = given.n / order;
    batch = at / merges;
    index = at;
    first = at % merges * order;
  }
  __device__ __forceinline__ double* field(DivideField which) const {
    return args.work +
           (batch * static_cast<int>(DivideField::kCount) + static_cast<int>(which)) * args.n +
           first;
  }
  __device__ __forceinline__ int* link(DivideLink which) const {
    return args.links +
           (batch * static_cast<int>(DivideLink::kCount) + static_cast<int>(which)) * args.n +
           first;
  }
  __device__ __forceinline__ double off() const {
    return args.off[batch * args.n + first + args.half - 1];
  }
  __device__ __forceinline__ double rho() const { return 2.0 * fabs(off()); }
};

// Diagonal blocks of the torn matrix, dense.
template <class R>
__global__ __launch_bounds__(kDivideThreads) void divide_tear(
    const __grid_constant__ TearArgs args) {
  const long long at = blockIdx.x * static_cast<long long>(kDivideThreads) + threadIdx.x;
  if (at >= args.count) return;
  const int leaf = args.leaf;
  const int j = static_cast<int>(at % leaf);
  const int i = static_cast<int>(at / leaf % leaf);
  const long long which = at / leaf / leaf;
  const int leaves = args.n / leaf;
  const int first = static_cast<int>(which % leaves) * leaf;
  const double* const diagonal = args.bands + which / leaves * 2 * args.n;
  const double* const off = diagonal + args.n;
  double value = 0.0;
  if (i == j) {
    value = diagonal[first + i];
    if (i == 0 && first > 0) value -= fabs(off[first - 1]);
    if (i == leaf - 1 && first + leaf < args.n) value -= fabs(off[first + i]);
  } else if (i == j + 1 || j == i + 1) {
    value = off[first + min(i, j)];
  }
  Matrix<R>(args.leaves, which)(i, j) = static_cast<R>(value);
}

// --- deflation ----------------------------------------------------------------------------------

// The chain of near-equal values that the scan is in: one of them keeps the norm of all their z.
struct Chain {
  int start = 0;
  int last = -1;  // < 0: none yet
  double value = 0.0;
  double norm = 0.0;
};

struct DeflateScan {
  const Merge& merge;
  double rho, tolerance;
  int roots = 0;
  Chain chain;

  __device__ __forceinline__ DeflateScan(const Merge& of, double limit)
      : merge(of), rho(of.rho()), tolerance(limit) {}

  __device__ __forceinline__ void end_chain() {
    if (chain.last < 0) return;
    merge.field(DivideField::kPole)[roots] = chain.value;
    merge.field(DivideField::kWeight)[roots] = chain.norm;
    merge.field(DivideField::kSquare)[roots] = rho * chain.norm * chain.norm;
    merge.link(DivideLink::kPlace)[roots] = chain.last;
    ++roots;
  }

  __device__ __forceinline__ void visit(int slot, double value, double z) {
    merge.link(DivideLink::kNext)[slot] = -1;
    if (rho * fabs(z) <= tolerance) {
      merge.field(DivideField::kSlotZ)[slot] = 0.0;
      merge.field(DivideField::kFound)[slot] = value;
      merge.link(DivideLink::kRoot)[slot] = -1;
      return;
    }
    const double squares = z * z + chain.norm * chain.norm;
    if (chain.last >= 0 && fabs((value - chain.value) * z * chain.norm) <= tolerance * squares) {
      const double mine = z * z / squares;
      const double theirs = chain.norm * chain.norm / squares;
      merge.field(DivideField::kFound)[chain.last] = chain.value * mine + value * theirs;
      merge.link(DivideLink::kNext)[chain.last] = slot;
      chain.value = chain.value * theirs + value * mine;
      chain.norm = sqrt(squares);
    } else {
      end_chain();
      chain.start = slot;
      chain.value = value;
      chain.norm = fabs(z);
    }
    chain.last = slot;
    merge.field(DivideField::kSlotNorm)[slot] = chain.norm;
    merge.link(DivideLink::kStart)[slot] = chain.start;
    merge.link(DivideLink::kRoot)[slot] = roots;
  }
};

// How many of the ascending x[0 .. count) are less than `value` (or_equal: not greater).
__device__ __forceinline__ int count_below(const double* x, int count, double value,
                                           bool or_equal) {
  int low = 0;
  int high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (or_equal ? x[middle] <= value : x[middle] < value) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// A block for each merge.
template <class R>
__global__ __launch_bounds__(kDivideThreads) void divide_deflate(
    const __grid_constant__ DivideArgs args) {
  __shared__ double slots[kDivideWarps];
  __shared__ double values[kDivideWindow];
  __shared__ double zs[kDivideWindow];
  const Merge merge(args, static_cast<int>(blockIdx.x));
  const int half = args.half;
  const int thread = static_cast<int>(threadIdx.x);
  const Matrix<R> upper(args.q, 2ll * merge.index);
  const Matrix<R> lower(args.q, 2ll * merge.index + 1);
  const double* const given = merge.field(DivideField::kValue);
  double* const slot_value = merge.field(DivideField::kSlotValue);
  double* const slot_z = merge.field(DivideField::kSlotZ);
  const double root_half = 0.70710678118654752;
  double largest = 0.0;
  for (int i = thread; i < merge.order; i += kDivideThreads) {
    const bool second = i >= half;
    const double value = given[i];
    const double z = second ? copysign(root_half, merge.off()) * lower(0, i - half)
                            : root_half * upper(half - 1, i);
    const int slot = second ? i - half + count_below(given, half, value, true)
                            : i + count_below(given + half, half, value, false);
    merge.link(DivideLink::kSlot)[i] = slot;
    slot_value[slot] = value;
    slot_z[slot] = z;
    largest = fmax(largest, fmax(fabs(value), fabs(z)));
  }
  largest = reduce_block<double, true>(largest, slots);
  DeflateScan scan(merge, 4.0 * static_cast<double>(kEpsilon<R>) * largest);
  for (int first = 0; first < merge.order; first += kDivideWindow) {
    const int count = min(kDivideWindow, merge.order - first);
    __syncthreads();
    for (int i = thread; i < count; i += kDivideThreads) {
      values[i] = slot_value[first + i];
      zs[i] = slot_z[first + i];
    }
    __syncthreads();
    if (thread == 0)
      for (int i = 0; i < count; ++i) scan.visit(first + i, values[i], zs[i]);
  }
  if (thread != 0) return;
  scan.end_chain();
  *merge.link(DivideLink::kNumRoots) = scan.roots;
}

// --- roots --------------------------------------------------------------------------------------

// The secular function and its derivative in two parts, of poles up to `split` and after it; size
// is the sum of all magnitudes.
struct SecularValue {
  double f, left, right, size;
};

struct Secular {
  const double* pole;
  const double* square;
  int count;

  __device__ __forceinline__ SecularValue at(double origin, double offset, int split) const {
    double f = 0.0;
    double size = 0.0;
    double left = 0.0;
    double right = 0.0;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < count; i += 32) {
      const double inverse = 1.0 / ((pole[i] - origin) - offset);
      const double term = square[i] * inverse;
      const double slope = term * inverse;
      f += term;
      size += fabs(term);
      if (i <= split) {
        left += slope;
      } else {
        right += slope;
      }
    }
    return {1.0 + sum_lanes(f), sum_lanes(left), sum_lanes(right), 1.0 + sum_lanes(size)};
  }

  __device__ __forceinline__ double total() const {
    double sum = 0.0;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < count; i += 32) sum += square[i];
    return sum_lanes(sum);
  }
};

// The step from a point to the root of c + s / (p - x) + t / (q - x) with the function's value and
// its two derivatives there (Li's middle way); p and q are `near` and `far` from the point.
__device__ __forceinline__ double secular_step(const SecularValue& value, double near, double far,
                                               bool last) {
  const double c = value.f - near * value.left - far * value.right;
  const double a = (near + far) * value.f - near * far * (value.left + value.right);
  const double b = near * far * value.f;
  const double root = copysign(sqrt(fabs(a * a - 4.0 * b * c)), last ? -1.0 : 1.0);
  return (a <= 0.0) != last ? (a - root) / (2.0 * c) : 2.0 * b / (a + root);
}

__device__ __forceinline__ double middle_of(double low, double high) {
  const bool wide = (low > 0.0 && high > 4.0 * low) || (high < 0.0 && low < 4.0 * high);
  if (!wide) return (low + high) / 2.0;
  return copysign(sqrt(fabs(low)) * sqrt(fabs(high)), low);
}

// A warp for each root: between its pole and the next one, as an offset from the nearer of both.
__global__ __launch_bounds__(kDivideThreads) void divide_roots(
    const __grid_constant__ DivideArgs args) {
  constexpr int kMaxSteps = 100;
  constexpr double kLimit = 8.0 * 0x1p-52;
  const int warps = (2 * args.half + kDivideWarps - 1) / kDivideWarps;
  const Merge merge(args, static_cast<int>(blockIdx.x) / warps);
  const int root =
      static_cast<int>(blockIdx.x) % warps * kDivideWarps + static_cast<int>(threadIdx.x) / 32;
  const int count = *merge.link(DivideLink::kNumRoots);
  if (root >= count) return;
  const Secular secular{merge.field(DivideField::kPole), merge.field(DivideField::kSquare), count};
  const bool last = root == count - 1;
  const int left = last ? max(root - 1, 0) : root;
  const int right = last ? root : root + 1;
  const double gap = last ? secular.total() : secular.pole[right] - secular.pole[root];
  double low = 0.0;
  double high = gap / 2.0;
  int origin_at = root;
  const bool above = secular.at(secular.pole[root], high, left).f < 0.0;
  if (above && last) {
    low = high;
    high = gap;
  } else if (above) {
    origin_at = right;
    low = -high;
    high = 0.0;
  }
  const double origin = secular.pole[origin_at];
  double offset = count == 1 ? gap : above ? low : high;
  for (int step = 0; step < kMaxSteps; ++step) {
    const SecularValue value = secular.at(origin, offset, left);
    if (fabs(value.f) <= kLimit * value.size) break;
    if (value.f < 0.0) {
      low = offset;
    } else {
      high = offset;
    }
    double next = offset + secular_step(value, (secular.pole[left] - origin) - offset,
                                        (secular.pole[right] - origin) - offset, last);
    if (!(low < next && next < high)) next = middle_of(low, high);
    if (next == low || next == high || next == offset) break;
    offset = next;
  }
  if (threadIdx.x % 32 != 0) return;
  merge.field(DivideField::kOffset)[root] = offset;
  merge.link(DivideLink::kOrigin)[root] = origin_at;
  merge.field(DivideField::kFound)[merge.link(DivideLink::kPlace)[root]] = origin + offset;
}

// A warp for each root: |z| at its pole that makes the roots exact (Loewner's formula).
__global__ __launch_bounds__(kDivideThreads) void divide_weights(
    const __grid_constant__ DivideArgs args) {
  const int warps = (2 * args.half + kDivideWarps - 1) / kDivideWarps;
  const Merge merge(args, static_cast<int>(blockIdx.x) / warps);
  const int i =
      static_cast<int>(blockIdx.x) % warps * kDivideWarps + static_cast<int>(threadIdx.x) / 32;
  const int count = *merge.link(DivideLink::kNumRoots);
  if (i >= count) return;
  const double* const pole = merge.field(DivideField::kPole);
  const double* const offset = merge.field(DivideField::kOffset);
  const int* const origin = merge.link(DivideLink::kOrigin);
  double product = 1.0;
  for (int j = static_cast<int>(threadIdx.x) % 32; j < count; j += 32) {
    const double distance = offset[j] - (pole[i] - pole[origin[j]]);  // root j from pole i
    product *= j == count - 1 ? distance : distance / (pole[j < i ? j : j + 1] - pole[i]);
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) product *= __shfl_xor_sync(0xffffffffu, product, mask);
  if (threadIdx.x % 32 == 0) merge.field(DivideField::kExact)[i] = sqrt(fabs(product));
}

// --- eigenvectors -------------------------------------------------------------------------------

// One of a merge, in the order of the halves' eigenvectors.
struct DivideVector {
  const Merge& merge;
  int slot, root, next;
  double factor;  // root: 1 / norm; rotated: of the chain's z
  double rest;    // rotated: in the place of `next`
  double origin, offset;

  __device__ __forceinline__ DivideVector(const Merge& of, int of_slot)
      : merge(of),
        slot(of_slot),
        root(of.link(DivideLink::kRoot)[of_slot]),
        next(of.link(DivideLink::kNext)[of_slot]),
        factor(1.0),
        rest(0.0),
        origin(0.0),
        offset(0.0) {
    if (root < 0) return;
    if (next >= 0) {
      const double* const norms = merge.field(DivideField::kSlotNorm);
      factor = merge.field(DivideField::kSlotZ)[next] / (norms[next] * norms[slot]);
      rest = -norms[slot] / norms[next];
      return;
    }
    origin = merge.field(DivideField::kPole)[merge.link(DivideLink::kOrigin)[root]];
    offset = merge.field(DivideField::kOffset)[root];
    double squares = 0.0;
    for (int i = static_cast<int>(threadIdx.x) % 32; i < *merge.link(DivideLink::kNumRoots);
         i += 32) {
      const double x = component(i);
      squares += x * x;
    }
    factor = 1.0 / sqrt(sum_lanes(squares));
  }

  __device__ __forceinline__ double component(int of_root) const {
    return merge.field(DivideField::kExact)[of_root] /
           ((merge.field(DivideField::kPole)[of_root] - origin) - offset);
  }

  __device__ __forceinline__ double at(int i) const {
    const int other = merge.link(DivideLink::kSlot)[i];
    if (root < 0) return other == slot ? 1.0 : 0.0;
    const double z = merge.field(DivideField::kSlotZ)[other];
    if (next >= 0) {
      if (other == next) return rest;
      const bool inside = merge.link(DivideLink::kStart)[slot] <= other && other <= slot;
      return inside ? factor * z : 0.0;
    }
    const int other_root = merge.link(DivideLink::kRoot)[other];
    if (other_root < 0) return 0.0;
    return component(other_root) * factor * (z / merge.field(DivideField::kWeight)[other_root]);
  }
};

// A warp for each slot: its rank, which is its row of u, and that row.
template <class R>
__global__ __launch_bounds__(kDivideThreads) void divide_vectors(
    const __grid_constant__ DivideArgs args) {
  const int warps = (2 * args.half + kDivideWarps - 1) / kDivideWarps;
  const Merge merge(args, static_cast<int>(blockIdx.x) / warps);
  const int slot =
      static_cast<int>(blockIdx.x) % warps * kDivideWarps + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (slot >= merge.order) return;
  const double* const found = merge.field(DivideField::kFound);
  const double value = found[slot];
  int rank = 0;
  for (int i = lane; i < merge.order; i += 32)
    if (found[i] < value || (found[i] == value && i < slot)) ++rank;
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) rank += __shfl_xor_sync(0xffffffffu, rank, mask);
  if (lane == 0) merge.field(DivideField::kValue)[rank] = value;
  const DivideVector vector(merge, slot);
  const Matrix<R> upper(args.u, 2ll * merge.index);
  const Matrix<R> lower(args.u, 2ll * merge.index + 1);
  for (int i = lane; i < args.half; i += 32) {
    upper(rank, i) = static_cast<R>(vector.at(i));
    lower(rank, i) = static_cast<R>(vector.at(args.half + i));
  }
}

}  // namespace gpk
