// Pages of caches [blocks, page, ...] as words W of memory.
// copy_pages: cache[to] = cache[from] for pairs of pages, of up to two caches. Grid: (pairs *
// chunks, caches), 1024 words each. gather_pages: out[s, i] = cache[table[s, i / page], i % page],
// a warp per token; 0 at the length of a sequence and beyond. slot_mapping: the slot of each token,
// a thread each. Blocks that the cache does not have are skipped, give 0, or the slot -1.
#pragma once

#include "args/kv_cache.h"
#include "common/vec.cuh"

namespace gpk {

using namespace kernels;

template <class W>
__global__ void __launch_bounds__(256) copy_pages(const PageCopyArgs args) {
  const long long pair = blockIdx.x / static_cast<unsigned>(args.chunks);
  const int chunk = static_cast<int>(blockIdx.x % static_cast<unsigned>(args.chunks));
  const long long from = args.pairs[2 * pair];
  const long long to = args.pairs[2 * pair + 1];
  if (from < 0 || to < 0 || from >= args.num_blocks || to >= args.num_blocks || from == to) return;
  const bool second = blockIdx.y != 0;
  W* cache = static_cast<W*>(second ? args.caches[1] : args.caches[0]);
  const long long block = second ? args.block[1] : args.block[0];
  const W* source = cache + from * block;
  W* target = cache + to * block;
  const long long first = static_cast<long long>(chunk) * 1024 + threadIdx.x;
  W words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * 256 < args.words) words[i] = source[first + i * 256];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (first + i * 256 < args.words) target[first + i * 256] = words[i];
}

template <class W>
__global__ void __launch_bounds__(256) gather_pages(const PageGatherArgs args) {
  const long long token = (static_cast<long long>(blockIdx.x) * 256 + threadIdx.x) / 32;
  if (token >= args.num_tokens) return;
  const long long sequence = token / args.length;
  const long long at = token % args.length;
  const bool within = args.lengths == nullptr || at < args.lengths[sequence];
  const long long column = at / args.page;
  const long long block =
      within && column < args.max_blocks ? args.tables[sequence * args.max_blocks + column] : -1;
  const bool known = block >= 0 && block < args.num_blocks;
  const W* from =
      known ? static_cast<const W*>(args.cache) + block * args.block + at % args.page * args.slot
            : nullptr;
  W* out = static_cast<W*>(args.out) + token * args.words;
#pragma unroll 4
  for (long long i = threadIdx.x % 32; i < args.words; i += 32) out[i] = known ? from[i] : W{};
}

__global__ void __launch_bounds__(256) slot_mapping(const SlotMappingArgs args) {
  const long long token = static_cast<long long>(blockIdx.x) * 256 + threadIdx.x;
  if (token >= args.num_tokens) return;
  const long long sequence = args.sequences == nullptr ? token : args.sequences[token];
  const int position = args.positions[token];
  const int column = position / args.page;
  int slot = -1;
  if (position >= 0 && column < args.max_blocks && sequence >= 0 && sequence < args.num_sequences) {
    const int block = args.tables[sequence * args.max_blocks + column];
    if (block >= 0) slot = block * args.page + position % args.page;
  }
  args.slots[token] = slot;
}

}  // namespace gpk
