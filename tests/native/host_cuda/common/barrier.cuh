// native/kernels/common/barrier.cuh on the host.
#pragma once

#include "common/shared.cuh"

namespace gpk {
namespace detail {

// An mbarrier: its eight bytes as one atomic word.
class Mbarrier {
 public:
  struct State {
    unsigned expected : 16;  // arrivals of each phase
    unsigned pending : 15;
    unsigned parity : 1;  // of the phase that is not complete
    int bytes : 32;       // that copies have yet to deliver
  };

  explicit Mbarrier(unsigned address)
      : word_(*reinterpret_cast<std::uint64_t*>(at_shared(address))) {}

  void init(unsigned arrivals) {
    word_.store(std::bit_cast<std::uint64_t>(State{arrivals, arrivals, 0, 0}));
  }
  void update(unsigned arrivals, int bytes) {
    std::uint64_t before = word_.load();
    State next;
    do {
      next = std::bit_cast<State>(before);
      next.pending -= arrivals;
      next.bytes += bytes;
      if (next.pending == 0 && next.bytes == 0) {
        next.pending = next.expected;
        next.parity ^= 1u;
      }
    } while (!word_.compare_exchange_weak(before, std::bit_cast<std::uint64_t>(next)));
    word_.notify_all();
  }
  void wait(unsigned parity) {
    for (;;) {
      const std::uint64_t now = word_.load();
      if (std::bit_cast<State>(now).parity != (parity & 1u)) return;
      word_.wait(now);
    }
  }

 private:
  std::atomic_ref<std::uint64_t> word_;
};

}  // namespace detail

inline void barrier_init(unsigned barrier, unsigned arrivals) {
  detail::Mbarrier(barrier).init(arrivals);
}
inline void barrier_init_fence() {}
inline void barrier_arrive(unsigned barrier) { detail::Mbarrier(barrier).update(1, 0); }
inline void barrier_expect(unsigned barrier, unsigned bytes) {
  detail::Mbarrier(barrier).update(1, static_cast<int>(bytes));
}
inline void barrier_wait(unsigned barrier, unsigned parity) {
  detail::Mbarrier(barrier).wait(parity);
}

inline void cluster_sync() { host_cuda::t_cluster->sync(); }

template <class T>
void store_shared_quad(unsigned address, const T* x) {
  static_assert(sizeof(T) == 4);
  std::memcpy(detail::at_shared(address), x, 16);
}
inline void load_shared_quad(unsigned address, unsigned (&x)[4]) { load_shared(x, address); }

inline void named_sync(int id, int threads) {
  (*host_cuda::t_named)[static_cast<std::size_t>(id)].arrive(threads, true);
}
inline void named_arrive(int id, int threads) {
  (*host_cuda::t_named)[static_cast<std::size_t>(id)].arrive(threads, false);
}

}  // namespace gpk
