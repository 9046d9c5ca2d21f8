// Who is inside NVRTC: meanwhile neither fork() nor the end of the process can be let through.
#pragma once

namespace gpk::jit {

// Held around calls into NVRTC, its search and what follows a compile.
class NvrtcVisit {
 public:
  NvrtcVisit() noexcept;  // blocks for ever after close_nvrtc()
  ~NvrtcVisit();
  NvrtcVisit(const NvrtcVisit&) = delete;
  NvrtcVisit& operator=(const NvrtcVisit&) = delete;
};

// Before exit() runs NVRTC's static destructors: waits until nobody is inside and lets nobody in
// from then on.
void close_nvrtc() noexcept;

// The process was forked while another thread was inside: locks of NVRTC and of the loader may be
// held here for ever, so NVRTC is not used any more.
bool nvrtc_lost_in_fork() noexcept;

}  // namespace gpk::jit
