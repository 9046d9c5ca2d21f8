#include "runtime/pool/pool_host.h"

namespace gpk::runtime {

PoolHost::~PoolHost() {
  trim();
  for (const Piece& piece : abandoned_) give_back(piece);
}

void PoolHost::give_back(const Piece& piece) noexcept {
  device_.free_host(piece.data, piece.bytes);
  held_bytes_ -= piece.bytes;
}

PoolHost::Piece PoolHost::allocate(std::size_t bytes) {
  const auto fit = kept_.lower_bound(bytes);
  if (fit != kept_.end() && fit->first <= bytes + bytes / 4) {
    const Piece piece{fit->second, fit->first};
    kept_.erase(fit);
    return piece;
  }
  if (max_bytes_ != 0) {
    if (bytes > max_bytes_) return {};
    while (!kept_.empty() && held_bytes_ > max_bytes_ - bytes) {
      const auto largest = std::prev(kept_.end());
      give_back({largest->second, largest->first});
      kept_.erase(largest);
    }
    if (held_bytes_ > max_bytes_ - bytes) return {};
  }
  void* data = device_.allocate_host(bytes);
  if (data == nullptr && trim() > 0) data = device_.allocate_host(bytes);
  if (data == nullptr) return {};
  held_bytes_ += bytes;
  return {data, bytes};
}

void PoolHost::free(const Piece& piece) noexcept {
  try {
    kept_.emplace(piece.bytes, piece.data);
  } catch (...) {  // no memory to record it
    give_back(piece);
  }
}

void PoolHost::abandon(const Piece& piece) noexcept {
  try {
    abandoned_.push_back(piece);
  } catch (...) {  // leaked, which is better than reused
  }
}

std::size_t PoolHost::trim() noexcept {
  std::size_t bytes = 0;
  for (const auto& [size, data] : kept_) {
    give_back({data, size});
    bytes += size;
  }
  kept_.clear();
  return bytes;
}

}  // namespace gpk::runtime
