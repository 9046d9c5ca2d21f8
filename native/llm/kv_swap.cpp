#include "llm/kv_swap.h"

#include <algorithm>
#include <cstring>

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/context.h"
#include "core/stream.h"

namespace gpk::llm {
namespace {

constexpr std::int64_t kReadyPages = 8;

}  // namespace

SwappedSequence::~SwappedSequence() {
  if (blocks_.empty()) return;
  swap_->num_used_ -= num_pages();
  for (auto& block : blocks_) swap_->free_.push_back(std::move(block));
}

KvSwap::KvSwap(std::shared_ptr<KvPages> pages, std::int64_t max_pages)
    : pages_(std::move(pages)), max_pages_(max_pages) {
  const Device device = pages_->k(0).device();
  if (!device.is_cuda()) return;
  for (std::int64_t i = 0; i < std::min(max_pages, kReadyPages); ++i)
    free_.push_back(PinnedMemory::allocate(device, pages_->page_bytes()));
}

// Copies may be in flight.
KvSwap::~KvSwap() {
  const Device device = pages_->k(0).device();
  if (free_.empty() || !device.is_cuda()) return;
  try {
    Context::get(device.index).synchronize();
  } catch (const std::exception&) {  // the device is lost, and its copies with it
    return;
  }
}

std::shared_ptr<PinnedMemory> KvSwap::take() {
  if (num_used_ == max_pages_)
    throw Error(Error::Kind::kMemory,
                cat("kv_swap: all ", max_pages_, " pages of host memory are in use"));
  std::shared_ptr<PinnedMemory> block;
  if (free_.empty()) {
    block = PinnedMemory::allocate(pages_->k(0).device(), pages_->page_bytes());
  } else {
    block = std::move(free_.back());
    free_.pop_back();
  }
  ++num_used_;
  return block;
}

void KvSwap::copy(std::int32_t page, PinnedMemory& block, Direction direction) {
  const Device device = pages_->k(0).device();
  const auto& stream = current_stream(device);
  const auto layers = pages_->num_layers();
  const std::size_t bytes = block.bytes() / static_cast<std::size_t>(2 * layers);
  auto* host = static_cast<char*>(block.data());
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (const Array* cache : {&pages_->k(layer), &pages_->v(layer)}) {
      const BufferUse use(cache->buffer(), stream);
      char* at = static_cast<char*>(cache->data()) + static_cast<std::size_t>(page) * bytes;
      const auto address = static_cast<cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(at));
      const bool to_host = direction == Direction::kToHost;
      if (!device.is_cuda())
        std::memcpy(to_host ? host : at, to_host ? at : host, bytes);
      else if (to_host)
        copy_to_host(host, address, bytes, *stream);
      else
        copy_to_device(address, host, bytes, *stream);
      host += bytes;
    }
  }
}

SwappedSequence KvSwap::evict(Sequence& sequence) {
  SwappedSequence swapped(*this, sequence.length());
  const std::int64_t count = ceil_div(sequence.length(), pages_->page());
  for (std::int64_t i = 0; i < count; ++i) {
    swapped.blocks_.push_back(take());
    copy(sequence.table()[static_cast<std::size_t>(i)], *swapped.blocks_.back(),
         Direction::kToHost);
  }
  sequence.truncate(0);
  return swapped;
}

void KvSwap::restore(SwappedSequence& from, Sequence& to) {
  to.reserve(from.length());
  for (std::size_t i = 0; i < from.blocks_.size(); ++i)
    copy(to.table()[i], *from.blocks_[i], Direction::kToDevice);
  to.advance(from.length());
}

}  // namespace gpk::llm
