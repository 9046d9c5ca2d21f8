// What a simulated device says of itself: a preset of a real GPU, changed by PYGPUKIT_SIM_DEVICE.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace gpk::sim::driver {

struct DeviceModel {
  std::string name;  // "sim:sm_90a"
  int sm = 90;
  int num_sms = 132;
  std::size_t memory_bytes = 0;
  int shared_optin_bytes = 0;  // per block
  int shared_per_sm_bytes = 0;
  int threads_per_sm = 2048;
  int l2_bytes = 0;
  bool peer_access = true;
  bool virtual_memory = true;
  bool green_launches = true;  // kernels of the primary context run on streams of green contexts
};

// The devices that `text` asks for: an architecture ("sm_80", "sm_86", "sm_89", "sm_90a",
// "sm_120a") or a GPU
// ("a100", "rtx3090", "rtx4090", "h100", "h200"), then ":" and any of sms=, memory= (K, M, G),
// count=. Empty: sm_90a. Memory is at most what the host has, unless given. Throws
// std::invalid_argument.
std::vector<DeviceModel> parse_device_models(std::string_view text);

}  // namespace gpk::sim::driver
