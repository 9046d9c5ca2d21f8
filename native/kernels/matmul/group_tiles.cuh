// Groups of rows whose sizes only the device knows, cut into tiles of kTileM rows by kTileN
// columns. A block builds a table of the groups in shared memory, then finds tile `unit` in it by
// binary search. A tile never spans two groups. Rows beyond the last group are a group of their
// own, number `groups`. Tiles of a group are rasterised in groups of `group` rows of tiles, so that
// concurrent tiles share A and B in the L2.
#pragma once

#include "args/matmul.h"

namespace gpk {

using namespace kernels;

struct GroupTile {
  int group;
  int m, n;  // first row and column
  int end;   // of the group's rows
};

// Exclusive prefix sum over the lanes of a warp.
__device__ __forceinline__ long long sum_below_lane(long long value, int lane) {
  long long sum = value;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const long long below = __shfl_up_sync(0xffffffffu, sum, distance);
    if (lane >= distance) sum += below;
  }
  return sum - value;
}

// The table: where the rows and the tiles of each group end; groups + 1 entries.
template <int kTileM, int kTileN>
struct GroupTiles {
  // For all threads of the block; a barrier at the end. Sizes below 0 count as 0; rows end at
  // args.m.
  static __device__ __forceinline__ void fill(GroupEnds* table, const GroupTilesArgs& args) {
    for (int g = static_cast<int>(threadIdx.x); g < args.groups; g += static_cast<int>(blockDim.x))
      table[g].rows = min(max(args.sizes[g * args.sizes_step], 0), args.m);
    __syncthreads();
    if (threadIdx.x < 32) sum_up(table, args, static_cast<int>(threadIdx.x));
    __syncthreads();
  }

  static __device__ __forceinline__ int num_units(const GroupEnds* table,
                                                  const GroupTilesArgs& args) {
    return table[args.groups].tiles * args.tiles_n;
  }

  static __device__ __forceinline__ GroupTile at(const GroupEnds* table, const GroupTilesArgs& args,
                                                 int unit) {
    const int tile = unit / args.tiles_n;
    int low = 0;  // the first group that ends after `tile`
    for (int high = args.groups; low < high;) {
      const int middle = (low + high) / 2;
      if (table[middle].tiles > tile) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    const GroupEnds before = low == 0 ? GroupEnds{0, 0} : table[low - 1];
    const GroupEnds here = table[low];
    int rest = unit - before.tiles * args.tiles_n;
    const int first = rest / (args.raster * args.tiles_n) * args.raster;
    const int rows = min(args.raster, here.tiles - before.tiles - first);
    rest -= first * args.tiles_n;
    const int column = rest / rows;
    return {low, before.rows + (first + rest - column * rows) * kTileM, column * kTileN, here.rows};
  }

 private:
  // From sizes in `rows` to the table; each lane has consecutive groups.
  static __device__ __forceinline__ void sum_up(GroupEnds* table, const GroupTilesArgs& args,
                                                int lane) {
    const int count = (args.groups + 31) / 32;
    const int first = min(lane * count, args.groups);
    const int last = min(first + count, args.groups);
    long long rows = 0;
    for (int g = first; g < last; ++g) rows += table[g].rows;
    rows = sum_below_lane(rows, lane);
    int tiles = 0;
    for (int g = first; g < last; ++g) {
      const int begin = static_cast<int>(min(rows, static_cast<long long>(args.m)));
      rows += table[g].rows;
      const int end = static_cast<int>(min(rows, static_cast<long long>(args.m)));
      tiles += (end - begin + kTileM - 1) / kTileM;
      table[g] = {tiles, end};
    }
    const int before = static_cast<int>(sum_below_lane(tiles, lane));
    for (int g = first; g < last; ++g) table[g].tiles += before;
    __syncwarp();
    if (lane != 0) return;
    const GroupEnds sum = args.groups == 0 ? GroupEnds{0, 0} : table[args.groups - 1];
    table[args.groups] = {sum.tiles + (args.m - sum.rows + kTileM - 1) / kTileM, args.m};
  }
};

}  // namespace gpk
