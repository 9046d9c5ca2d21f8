#include "core/interrupt.h"

#include <atomic>

namespace gpk::inline core {
namespace {

std::atomic<InterruptHook> g_hook{nullptr};

}  // namespace

void set_interrupt_hook(InterruptHook hook) noexcept { g_hook = hook; }

bool has_interrupt_hook() noexcept { return g_hook.load(std::memory_order_relaxed) != nullptr; }

void check_interrupt() {
  if (const InterruptHook hook = g_hook.load(std::memory_order_relaxed); hook != nullptr) hook();
}

}  // namespace gpk::inline core
