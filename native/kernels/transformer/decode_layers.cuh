// All layers of a decoder and its head for up to eight rows (tokens), in one launch of one block
// per multiprocessor. Bound by the bytes of the weights: a warp of each block streams its share of
// all matrices through a ring of shared memory, in the order of their use and ahead of it, while
// eight warps compute. Steps that need all results of the one before are separated by barriers of
// the grid, during which the ring fills.
// GEMMs: a block has tiles of 8 rows of w; x is the 16-row operand of the MMA. Lines of 64 k go
// round-robin to the eight warps, whose sums are added in their order: bits do not depend on the
// number of rows, nor on the grid.
// Numerics: sums in float32; what the separate kernels round is rounded. SM90+.
#pragma once

#include "args/transformer.h"
#include "attention/decode_mma.cuh"
#include "common/tma.cuh"
#include "kv_cache/write.cuh"

namespace gpk {

using namespace kernels;

__device__ __forceinline__ void add_release(unsigned* p, unsigned x) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(x) : "memory");
}

__device__ __forceinline__ unsigned load_acquire(const unsigned* p) {
  unsigned x;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
  return x;
}

// A matrix's share of a block: which tiles, in pairs.
struct TileList {
  int count;  // of this block
  int gated;  // tiles of a half; 0: one matrix

  // `rows` of w; gated: the halves of the matrix, tile i of one beside tile i of the other.
  __device__ __forceinline__ TileList(int rows, bool is_gated) {
    const int tiles = (is_gated ? rows / 2 : rows + kTileRows - 1) / kTileRows;
    const int mine = (tiles - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) /
                     static_cast<int>(gridDim.x);
    count = is_gated ? 2 * mine : mine;
    gated = is_gated ? tiles : 0;
  }
  __device__ __forceinline__ int operator[](int i) const {
    const int block = static_cast<int>(blockIdx.x);
    const int step = static_cast<int>(gridDim.x);
    if (gated == 0) return block + i * step;
    return block + i / 2 * step + (i % 2) * gated;
  }
  __device__ __forceinline__ int pairs() const { return (count + 1) / 2; }
};

// The order in which both sides go through a matrix: visit(pair, i in the group, first line, first
// line of x) for each stage, begin(first pair, first line) before each part of x, finish(first
// pair) after a group.
template <class Begin, class Visit, class Finish>
__device__ __forceinline__ void each_stage(const TileList& tiles, int lines, int x_lines,
                                           const Begin& begin, const Visit& visit,
                                           const Finish& finish) {
  for (int first = 0; first < tiles.pairs(); first += kPairs) {
    for (int part = 0; part < lines; part += x_lines) {
      begin(first, part);
      const int end = min(part + x_lines, lines);
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        if (first + i >= tiles.pairs()) continue;
        for (int line = part; line < end; line += kChunkLines) visit(first + i, i, line, part);
      }
    }
    finish(first);
  }
}

// Stages of the ring in turn.
struct RingPlace {
  int stage = 0;
  unsigned parity = 0;

  __device__ __forceinline__ void advance(int num_stages) {
    if (++stage < num_stages) return;
    stage = 0;
    parity ^= 1;
  }
};

struct DecodeShared {
  unsigned full, empty, ring;  // addresses
  unsigned char* x;            // also of attention
  float* reduce;

  __device__ __forceinline__ explicit DecodeShared(int num_stages) {
    unsigned char* const base = dynamic_shared();
    ring = shared_address(base);
    reduce = reinterpret_cast<float*>(base + num_stages * kStageBytes);
    x = base + num_stages * kStageBytes + kReduceBytes;
    __shared__ alignas(8) unsigned long long barriers[32];
    full = shared_address(barriers);
    empty = full + 8 * 16;
  }
};

class WeightFetcher {
 public:
  __device__ __forceinline__ WeightFetcher(const DecodeLayersArgs& args, const DecodeShared& shared)
      : args_(args), shared_(shared) {}

  __device__ __forceinline__ void run() {
    const DecodeLayersArgs& a = args_;
    const auto* const all = static_cast<const TensorMap*>(a.maps);
    for (int layer = 0; layer < a.num_layers; ++layer) {
      const TensorMap* const maps = all + layer * kLayerMaps;
      fetch(maps[kMapQkv], a.qkv_size, a.hidden_size, false);
      fetch(maps[kMapOut], a.hidden_size, a.q_size, false);
      fetch(maps[kMapGateUp], 2 * a.inner_size, a.hidden_size, true);
      fetch(maps[kMapDown], a.hidden_size, a.inner_size, false);
    }
    fetch(all[a.head_map], a.vocab_size, a.hidden_size, false);
  }

 private:
  __device__ __forceinline__ void fetch(const TensorMap& map, int n, int k, bool gated) {
    const TileList tiles(n, gated);
    const auto nothing = [](int, int = 0) {};
    each_stage(
        tiles, k / kBlockK, args_.x_lines, nothing,
        [&](int pair, int, int line, int) {
          const int count = min(kStageTiles, tiles.count - pair * kStageTiles);
          const unsigned full = shared_.full + 8 * place_.stage;
          barrier_wait(shared_.empty + 8 * place_.stage, place_.parity ^ 1);
          barrier_expect(full, count * kTileBytes);
          const unsigned to = shared_.ring + place_.stage * kStageBytes;
          for (int i = 0; i < count; ++i)
            load_box(to + i * kTileBytes, map, full, 0, tiles[pair * kStageTiles + i] * kTileRows,
                     line);
          place_.advance(args_.num_stages);
        },
        nothing);
  }

  const DecodeLayersArgs& args_;
  const DecodeShared& shared_;
  RingPlace place_;
};

// Norms, rotations and cache writes of all heads of all rows.
template <class T>
__device__ __noinline__ void write_heads(const KvWriteArgs& args) {
  const int thread = static_cast<int>(threadIdx.x);
  const long long threads = static_cast<long long>(gridDim.x) * kConsumers;
  for (long long item = static_cast<long long>(blockIdx.x) * kConsumers + thread;
       item - thread % 32 < args.num_rows * args.group; item += threads) {
    const int lane = static_cast<int>(item & (args.group - 1));
    HeadWriter<T, T, 8> head(args, item / args.group);
    if (args.q_weight != nullptr) head.normalise(lane);
    head.write(lane);
  }
}

// Attention of all rows: a block has every gridDim.x-th of (split, key head) of all rows. Not
// inlined: its registers would be those of the GEMMs, too.
template <class T, int kDim>
__device__ __noinline__ void attend_rows(const AttentionArgs& args, int rows, int kv_heads,
                                         int max_splits, unsigned char* shared) {
  const int split = 1 << args.split_log2;
  int next = static_cast<int>(blockIdx.x);  // this block's next item
  for (int row = 0; row < rows; ++row) {
    const int splits = max(1, (args.lengths[row] + split - 1) >> args.split_log2);
    for (; next < splits * kv_heads; next += static_cast<int>(gridDim.x)) {
      DecodeUnit unit;
      if (unit.init(args, next / kv_heads, next % kv_heads, row, kv_heads))
        decode_attention<T, T, kDim, kDim, kConsumerWarps, 1, false, true>(args, unit, max_splits,
                                                                           shared);
      named_sync(1, kConsumers);
    }
    next -= splits * kv_heads;
  }
}

template <class T, int kDim>
class LayerRunner {
 public:
  static constexpr int kNormPieces = kMaxHidden / (8 * kConsumers);

  // kv and attention are in shared memory.
  __device__ __forceinline__ LayerRunner(const DecodeLayersArgs& args, KvWriteArgs& kv,
                                         AttentionArgs& attention, const DecodeShared& shared)
      : args_(args),
        kv_(kv),
        attention_(attention),
        shared_(shared),
        thread_(static_cast<int>(threadIdx.x)),
        lane_(thread_ & 31),
        warp_(thread_ >> 5) {}

  __device__ __forceinline__ void run() {
    const int last = args_.num_layers * kLayerMaps;  // the head
#pragma unroll 1
    for (int i = 0;; ++i) {
      const DecodeLayer& layer = args_.layers[min(i, last - 1) / kLayerMaps];
      const int map = i < last ? i % kLayerMaps : kLayerMaps;
      if (map == kMapQkv && thread_ == 0) point_to(layer);  // read after the next barrier
      gemm(matrix(map, layer));
      if (i == last) break;
      grid_sync();
      if (map != kMapQkv) continue;
      write_heads<T>(kv_);
      grid_sync();
      attend_rows<T, kDim>(attention_, args_.rows, kv_.kv_heads, args_.max_splits, shared_.x);
      grid_sync();
    }
    leave();
  }

 private:
  // y = x w^T, w being [n, k].
  struct Matrix {
    const void* x;
    const void* norm;  // nullptr: x is used as it is
    const void* bias;
    void* y;
    int n, k;
    bool gated;  // y = silu(first half) * second half
    bool adds;   // to what y has
  };
  __device__ __forceinline__ Matrix matrix(int map, const DecodeLayer& layer) const {
    const DecodeLayersArgs& a = args_;
    switch (map) {
      case kMapQkv:
        return {a.hidden,   layer.attention_norm, layer.qkv_bias, a.qkv,
                a.qkv_size, a.hidden_size,        false,          false};
      case kMapOut:
        return {a.heads, nullptr, nullptr, a.hidden, a.hidden_size, a.q_size, false, true};
      case kMapGateUp:
        return {a.hidden,         layer.mlp_norm, nullptr, a.inner,
                2 * a.inner_size, a.hidden_size,  true,    false};
      case kMapDown:
        return {a.inner, nullptr, nullptr, a.hidden, a.hidden_size, a.inner_size, false, true};
      default:
        return {a.hidden,     a.final_norm,  nullptr, a.logits,
                a.vocab_size, a.hidden_size, false,   false};
    }
  }

  __device__ __forceinline__ void sync() const { named_sync(1, kConsumers); }

  __device__ __forceinline__ void grid_sync() {
    sync();
    num_arrivals_ += gridDim.x;
    if (thread_ == 0) {
      add_release(args_.barrier, 1u);
      while (load_acquire(args_.barrier) < num_arrivals_) {
      }
    }
    sync();
  }

  // The last block makes the barrier zero again.
  __device__ __forceinline__ void leave() {
    if (thread_ != 0) return;
    const unsigned last = num_arrivals_ + gridDim.x - 1;
    if (atomicAdd(args_.barrier, 1u) == last) *args_.barrier = 0;
  }

  // Address of 16 bytes (8 k) of a row of x. Rows are 128 bytes long, swizzled as TMA does.
  __device__ __forceinline__ unsigned x_address(int row, int line, int piece) const {
    return shared_address(shared_.x) + (line * args_.row_stride + row) * 128 +
           ((piece ^ row) & 7) * 16;
  }

  // Lines [part, part + x_lines) of x to shared memory.
  __device__ __forceinline__ void copy_x(const T* x, int k, int part) const {
    const int pieces = min(args_.x_lines * 8, k / 8 - part * 8);
    for (int i = thread_; i < args_.rows * pieces; i += kConsumers) {
      const int row = i / pieces;
      const int piece = i - row * pieces;
      cp_async<16>(x_address(row, piece / 8, piece % 8), x + row * k + part * kBlockK + piece * 8);
    }
    cp_async_commit();
    cp_async_wait<0>();
  }

  // All of x, normalised. Sums of squares depend on k alone in their order.
  __device__ __forceinline__ void norm_x(const T* x, const T* weight, int k) const {
    const int pieces = k / 8;
    Vec<T, 8> scale[kNormPieces];
#pragma unroll
    for (int j = 0; j < kNormPieces; ++j)
      if (thread_ + j * kConsumers < pieces)
        scale[j] = load_vec<T, 8>(weight + (thread_ + j * kConsumers) * 8);
    copy_x(x, k, 0);
    sync();
#pragma unroll 1
    for (int row = 0; row < args_.rows; ++row) {
      float sum = 0.0f;
      each_piece(row, pieces, [&](int, unsigned, Vec<T, 8>& y) {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const float value = to_compute(y.v[e]);
          sum = fmaf(value, value, sum);
        }
      });
#pragma unroll
      for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
      if (lane_ == 0) shared_.reduce[row * kConsumerWarps + warp_] = sum;
    }
    sync();
#pragma unroll 1
    for (int row = 0; row < args_.rows; ++row) {
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < kConsumerWarps; ++w) sum += shared_.reduce[row * kConsumerWarps + w];
      const float factor = rsqrtf(sum / static_cast<float>(k) + args_.eps);
      each_piece(row, pieces, [&](int j, unsigned at, Vec<T, 8>& y) {
#pragma unroll
        for (int e = 0; e < 8; ++e)
          y.v[e] =
              convert<T>(to_compute(y.v[e]) * factor * (args_.offset + to_compute(scale[j].v[e])));
        store_shared_quad(at, reinterpret_cast<const unsigned*>(&y));
      });
    }
  }

  // f(j, address, 8 elements) of this thread's pieces of a row of x.
  template <class F>
  __device__ __forceinline__ void each_piece(int row, int pieces, const F& f) const {
#pragma unroll
    for (int j = 0; j < kNormPieces; ++j) {
      const int piece = thread_ + j * kConsumers;
      if (piece >= pieces) continue;
      const unsigned at = x_address(row, piece / 8, piece % 8);
      unsigned bits[4];
      load_shared_quad(at, bits);
      f(j, at, *reinterpret_cast<Vec<T, 8>*>(bits));
    }
  }

  // sums[tile] += x w^T of one line of this warp.
  __device__ __forceinline__ void multiply(float (&sums)[kStageTiles][2], unsigned w, int x_line,
                                           int count) const {
    const int row = lane_ & 7;
    const int x_row = row & (args_.row_stride - 1);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int piece = 4 * half + (lane_ >> 3);
      unsigned a[4];
      load_matrices(a, x_address(x_row, x_line, piece));
      const unsigned low[4] = {a[0], 0u, a[1], 0u};
      const unsigned high[4] = {a[2], 0u, a[3], 0u};
#pragma unroll
      for (int tile = 0; tile < kStageTiles; ++tile) {
        if (tile >= count) continue;
        unsigned b[4];
        load_matrices(b, w + tile * kTileBytes + row * 128 + ((piece ^ row) & 7) * 16);
        float c[4] = {sums[tile][0], sums[tile][1], 0.0f, 0.0f};
        Mma<T, T>::template run<0>(c, low, b[0], b[1]);
        Mma<T, T>::template run<0>(c, high, b[2], b[3]);
        sums[tile][0] = c[0];
        sums[tile][1] = c[1];
      }
    }
  }

  __device__ __forceinline__ void gemm(const Matrix& m) {
    const TileList tiles(m.n, m.gated);
    const int lines = m.k / kBlockK;
    const bool resident = lines <= args_.x_lines;
    float sums[kPairs][kStageTiles][2] = {};
    each_stage(
        tiles, lines, args_.x_lines,
        [&](int first, int part) {
          if (resident && first > 0) return;
          sync();
          if (m.norm != nullptr)
            norm_x(static_cast<const T*>(m.x), static_cast<const T*>(m.norm), m.k);
          else
            copy_x(static_cast<const T*>(m.x), m.k, part);
          sync();
        },
        [&](int pair, int i, int line, int part) {
          barrier_wait(shared_.full + 8 * place_.stage, place_.parity);
          if (line + warp_ < lines)
            multiply(sums[i], shared_.ring + place_.stage * kStageBytes + warp_ * kTileRows * 128,
                     line - part + warp_, min(kStageTiles, tiles.count - pair * kStageTiles));
          __syncwarp();
          if (lane_ == 0) barrier_arrive(shared_.empty + 8 * place_.stage);
          place_.advance(args_.num_stages);
        },
        [&](int first) {
          reduce(sums, tiles, first, m);
#pragma unroll
          for (int i = 0; i < kPairs; ++i)
#pragma unroll
            for (int tile = 0; tile < kStageTiles; ++tile)
              sums[i][tile][0] = sums[i][tile][1] = 0.0f;
        });
  }

  // The sums of the warps, in their order.
  __device__ __forceinline__ void reduce(const float (&sums)[kPairs][kStageTiles][2],
                                         const TileList& tiles, int first, const Matrix& m) const {
    constexpr int kTile = kMaxDecodeRows * kTileRows;
    constexpr int kAll = kPairs * kStageTiles * kTile;
    float* const mine = shared_.reduce + warp_ * kAll + lane_ / 4 * kTileRows + lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
#pragma unroll
      for (int tile = 0; tile < kStageTiles; ++tile) {
        mine[(i * kStageTiles + tile) * kTile] = sums[i][tile][0];
        mine[(i * kStageTiles + tile) * kTile + 1] = sums[i][tile][1];
      }
    sync();
    const auto sum_of = [&](int at) {
      float y = 0.0f;
#pragma unroll
      for (int w = 0; w < kConsumerWarps; ++w) y += shared_.reduce[w * kAll + at];
      return y;
    };
    const int width = m.gated ? m.n / 2 : m.n;
    for (int i = thread_; i < (m.gated ? kAll / 2 : kAll); i += kConsumers) {
      const int tile = i / kTile * (m.gated ? 2 : 1);
      const int index = first * kStageTiles + tile;
      const int row = i / kTileRows % kMaxDecodeRows;
      if (index >= tiles.count || row >= args_.rows) continue;
      const int column = tiles[index] * kTileRows + i % kTileRows;
      if (column >= width) continue;
      const int at = tile * kTile + i % kTile;
      float y = sum_of(at);
      if (m.gated) y = y / (1.0f + __expf(-y)) * sum_of(at + kTile);
      if (m.bias != nullptr) y += to_compute(static_cast<const T*>(m.bias)[column]);
      T* const to = static_cast<T*>(m.y) + static_cast<long long>(row) * width + column;
      if (m.adds) y += to_compute(*to);
      *to = convert<T>(y);
    }
    sync();
  }

  __device__ __forceinline__ void point_to(const DecodeLayer& layer) const {
    kv_.k_cache.data = layer.k_cache;
    kv_.v_cache.data = layer.v_cache;
    kv_.q_weight = layer.q_norm;
    kv_.k_weight = layer.k_norm;
    attention_.k = layer.k_cache;
    attention_.v = layer.v_cache;
  }

  const DecodeLayersArgs& args_;
  KvWriteArgs& kv_;
  AttentionArgs& attention_;
  const DecodeShared& shared_;
  const int thread_, lane_, warp_;
  RingPlace place_;
  unsigned num_arrivals_ = 0;
};

template <class T, int kDim>
__global__ void __launch_bounds__(kDecodeThreads, 1)
    decode_layers_kernel(const __grid_constant__ DecodeLayersArgs args,
                         const __grid_constant__ KvWriteArgs kv,
                         const __grid_constant__ AttentionArgs attention) {
  __shared__ KvWriteArgs kv_of_layer;
  __shared__ AttentionArgs attention_of_layer;
  const DecodeShared shared(args.num_stages);
  if (threadIdx.x == 0) {
    kv_of_layer = kv;
    attention_of_layer = attention;
    for (int i = 0; i < args.num_stages; ++i) {
      barrier_init(shared.full + 8 * i, 1);
      barrier_init(shared.empty + 8 * i, kConsumerWarps);
    }
    barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers) WeightFetcher(args, shared).run();
    return;
  }
  wait_for_predecessor();
  LayerRunner<T, kDim>(args, kv_of_layer, attention_of_layer, shared).run();
}

}  // namespace gpk
