// Waits on the host that the user can break off.
#pragma once

namespace gpk {

// Called now and then by the threads that wait, with no lock of ours held: throws to end the wait.
// nullptr: nothing interrupts. Set once, when the library is loaded into an interpreter.
using InterruptHook = void (*)();
void set_interrupt_hook(InterruptHook hook) noexcept;

// Throws what the hook throws.
void check_interrupt();

}  // namespace gpk
