#include "device/compute_pacer.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "core/context.h"
#include "core/interrupt.h"

namespace gpk::device {
namespace {

constexpr std::int64_t kMaxNapNs = 100'000;

}  // namespace

ComputePacer::~ComputePacer() {
  for (const Running& running : running_) {
    events_.release(running.piece.start);
    events_.release(running.stop);
  }
}

ComputePacer::Piece ComputePacer::begin(MemberId member, cu::Stream stream) {
  try {
    while (true) {
      retire();
      if (shares_.try_begin(member)) break;
      const std::int64_t nap_ns = std::min(shares_.retry_in_ns(member), kMaxNapNs);
      check_interrupt();
      std::this_thread::sleep_for(std::chrono::nanoseconds(nap_ns));
    }
  } catch (const Error&) {  // the member has left: nothing to keep to
    return {};
  }
  try {
    return {member, events_.record(stream)};
  } catch (...) {
    abandon({member, 0});
    throw;
  }
}

void ComputePacer::submitted(const Piece& piece, cu::Stream stream) {
  if (piece.start == 0) return;
  EventCache::EventId stop = 0;
  try {
    stop = events_.record(stream);
  } catch (...) {
    abandon(piece);
    throw;
  }
  const std::lock_guard lock(mutex_);
  running_.push_back({piece, stop});
}

void ComputePacer::abandon(const Piece& piece) noexcept {
  if (piece.start != 0) events_.release(piece.start);
  try {
    shares_.abandon(piece.member);
  } catch (const Error&) {  // the member has left
  }
}

// The GPU time of work that is done; below 0 while it is not.
double ComputePacer::measure(const Running& running) {
  try {
    if (!events_.poll(running.stop)) return -1.0;
    return std::max(0.0, events_.elapsed_ns(running.piece.start, running.stop));
  } catch (const Error&) {  // failed work is over; whoever waits for it gets the error
    return 0.0;
  }
}

void ComputePacer::retire() {
  const std::lock_guard lock(mutex_);
  for (auto at = running_.begin(); at != running_.end();) {
    const double ns = measure(*at);
    if (ns < 0.0) {
      ++at;
      continue;
    }
    try {
      shares_.end(at->piece.member, ns);
    } catch (const Error&) {  // the member has left
    }
    events_.release(at->piece.start);
    events_.release(at->stop);
    at = running_.erase(at);
  }
}

}  // namespace gpk::device
