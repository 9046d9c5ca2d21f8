// A thread that requests the GIL during interpreter shutdown gets pthread_exit() from CPython
// before 3.14, which unwinds its stack: destructors would use Python without the GIL, and a
// noexcept one would terminate the process. 3.14 blocks such a thread forever instead; this gives
// all versions that behaviour.
//
// pthread_exit() calls the personality routine of each frame, innermost first. The functions below
// only forward to the one of the same name, and their personality routine never returns. Written in
// assembly because C++ frames have the compiler's routine, which in a wheel with its own runtime
// library cannot read the unwinder's state.
#include "bindings/park.h"

#include "bindings/python.h"

#include <chrono>
#include <csignal>
#include <thread>

namespace gpk::bind {

void park() noexcept {
#ifndef _WIN32
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // signals are for running threads
#endif
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace gpk::bind

#ifdef GPK_WRAP_PYTHON_CALLS
extern "C" [[gnu::visibility("hidden"), gnu::used]] int gpk_park_personality(int /*version*/,
                                                                             int actions) {
  constexpr int kForcedUnwind = 8;    // _UA_FORCE_UNWIND
  constexpr int kContinueUnwind = 8;  // _URC_CONTINUE_UNWIND
  if ((actions & kForcedUnwind) != 0) gpk::bind::park();
  return kContinueUnwind;
}

#if defined(__x86_64__)
#define GPK_FORWARD(name)       \
  "sub $8, %rsp\n"              \
  ".cfi_adjust_cfa_offset 8\n"  \
  "call __real_" name           \
  "@PLT\n"                      \
  "add $8, %rsp\n"              \
  ".cfi_adjust_cfa_offset -8\n" \
  "ret\n"
#elif defined(__aarch64__)
#define GPK_FORWARD(name)        \
  "stp x29, x30, [sp, #-16]!\n"  \
  ".cfi_adjust_cfa_offset 16\n"  \
  ".cfi_rel_offset x29, 0\n"     \
  ".cfi_rel_offset x30, 8\n"     \
  "mov x29, sp\n"                \
  "bl __real_" name              \
  "\n"                           \
  "ldp x29, x30, [sp], #16\n"    \
  ".cfi_adjust_cfa_offset -16\n" \
  ".cfi_restore x29\n"           \
  ".cfi_restore x30\n"           \
  "ret\n"
#endif

// 0x1b: the routine's address as a signed 32-bit PC-relative offset.
#define GPK_PYTHON_CALL(name) \
  asm(".text\n"                                          \
      ".p2align 4\n"                                     \
      ".hidden __wrap_" #name "\n"                       \
      ".globl __wrap_" #name "\n"                        \
      ".type __wrap_" #name ", %function\n"              \
      "__wrap_" #name ":\n"                              \
      ".cfi_startproc\n"                                 \
      ".cfi_personality 0x1b, gpk_park_personality\n"    \
      GPK_FORWARD(#name)                                 \
      ".cfi_endproc\n"                                   \
      ".size __wrap_" #name ", .-__wrap_" #name "\n");
#include "bindings/python_calls.def"
#undef GPK_PYTHON_CALL
#endif
