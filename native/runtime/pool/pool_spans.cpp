#include "runtime/pool/pool_spans.h"

#include <utility>

namespace gpk::runtime {

PoolSpans::~PoolSpans() = default;

PoolBins& PoolSpans::bins_of(PoolArena& arena, const PoolStream& stream) noexcept {
  return arena.bins.find(stream.index)->second;
}

void PoolSpans::link(PoolBins& bins, PoolSpan* span) noexcept {
  PoolSpan*& first = bins.first[span->size_class];
  span->prev = nullptr;
  span->next = first;
  if (first != nullptr) first->prev = span;
  first = span;
}

void PoolSpans::unlink(PoolBins& bins, PoolSpan* span) noexcept {
  if (span->prev != nullptr)
    span->prev->next = span->next;
  else
    bins.first[span->size_class] = span->next;
  if (span->next != nullptr) span->next->prev = span->prev;
  span->prev = span->next = nullptr;
}

PoolBlock* PoolSpans::take(PoolArena& arena, const PoolStream& stream,
                           std::uint32_t size_class) noexcept {
  const auto found = arena.bins.find(stream.index);
  if (found == arena.bins.end()) return nullptr;
  PoolSpan* span = found->second.first[size_class];
  if (span == nullptr) return nullptr;
  PoolBlock* block = std::exchange(span->free, span->free->next);
  if (--span->num_free == 0) unlink(found->second, span);
  return block;
}

void PoolSpans::prepare(PoolArena& arena, const PoolStream& stream, std::uint32_t size_class) {
  arena.bins.try_emplace(stream.index);
  if (recycled_[size_class] != nullptr) return;
  auto span = std::make_unique<PoolSpan>();
  span->size_class = size_class;
  span->num_blocks = PoolSizeClass::num_per_span(size_class);
  span->blocks = std::make_unique<PoolBlock[]>(span->num_blocks);
  for (std::size_t i = 0; i < span->num_blocks; ++i) {
    PoolBlock& block = span->blocks[i];
    block.span = span.get();
    block.size_class = size_class;
    block.bytes = PoolSizeClass::bytes(size_class);
  }
  all_.push_back(std::move(span));
  recycled_[size_class] = all_.back().get();
}

void PoolSpans::add(PoolRange* range, std::uint32_t size_class) noexcept {
  PoolSpan* span = std::exchange(recycled_[size_class], recycled_[size_class]->next);
  range->span = span;
  span->range = range;
  span->stream = range->stream;
  span->common.store(range->arena->kind == PoolArena::Kind::kCommon, std::memory_order_relaxed);
  span->free = nullptr;
  for (std::size_t i = span->num_blocks; i-- > 0;) {  // lowest address first in the list
    PoolBlock& block = span->blocks[i];
    block.address = range->address + i * block.bytes;
    block.next = std::exchange(span->free, &block);
  }
  span->num_free = span->num_blocks;
  PoolBins& bins = bins_of(*range->arena, *range->stream);
  ++bins.num_spans;
  link(bins, span);
}

PoolRange* PoolSpans::put(PoolBlock* block) noexcept {
  PoolSpan* span = block->span;
  PoolBins& bins = bins_of(*span->range->arena, *span->stream);
  block->next = std::exchange(span->free, block);
  if (++span->num_free == 1) link(bins, span);
  if (span->num_free != span->num_blocks) return nullptr;
  const bool others = span->prev != nullptr || span->next != nullptr;
  return others || span->stream->dead.load(std::memory_order_relaxed) ? detach(span) : nullptr;
}

PoolRange* PoolSpans::detach(PoolSpan* span) noexcept {
  PoolBins& bins = bins_of(*span->range->arena, *span->stream);
  --bins.num_spans;
  unlink(bins, span);
  span->next = std::exchange(recycled_[span->size_class], span);
  return std::exchange(span->range, nullptr);
}

void PoolSpans::dissolve(PoolArena& from, PoolArena& into) noexcept {
  while (!from.bins.empty()) {
    auto moved = into.bins.insert(from.bins.extract(from.bins.begin()));
    if (moved.inserted) continue;
    PoolBins& bins = moved.node.mapped();
    PoolBins& target = moved.position->second;
    target.num_spans += bins.num_spans;
    for (PoolSpan*& first : bins.first)
      while (first != nullptr) {
        PoolSpan* span = first;
        unlink(bins, span);
        link(target, span);
      }
  }
  for (const auto& span : all_)
    if (span->range != nullptr && span->range->arena == &into)
      span->common.store(into.kind == PoolArena::Kind::kCommon, std::memory_order_relaxed);
}

}  // namespace gpk::runtime
