#include "sim/driver/device_model.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>

#include "base/lower_case.h"
#include "base/text.h"

namespace gpk::sim::driver {
namespace {

constexpr std::size_t kGiB = std::size_t{1} << 30;
constexpr int kKiB = 1 << 10;
constexpr int kMiB = 1 << 20;

struct Preset {
  const char* arch;
  const char* gpu;
  DeviceModel model;
};

const std::vector<Preset>& presets() {
  static const auto& all = *new std::vector<Preset>{
      {"sm_90a", "h100", {"", 90, 132, 80 * kGiB, 227 * kKiB, 228 * kKiB, 2048, 50 * kMiB}},
      {"sm_90", "h200", {"", 90, 132, 141 * kGiB, 227 * kKiB, 228 * kKiB, 2048, 50 * kMiB}},
      {"sm_80", "a100", {"", 80, 108, 80 * kGiB, 163 * kKiB, 164 * kKiB, 2048, 40 * kMiB}},
      {"sm_86", "rtx3090", {"", 86, 82, 24 * kGiB, 99 * kKiB, 100 * kKiB, 1536, 6 * kMiB}},
      {"sm_89", "rtx4090", {"", 89, 128, 24 * kGiB, 99 * kKiB, 100 * kKiB, 1536, 72 * kMiB}},
      {"sm_120a", "rtx5090", {"", 120, 170, 32 * kGiB, 99 * kKiB, 100 * kKiB, 1536, 96 * kMiB}},
  };
  return all;
}

[[noreturn]] void refuse(std::string_view what, std::string_view expected) {
  throw std::invalid_argument(
      cat("PYGPUKIT_SIM_DEVICE: '", what, "' is unknown, expected ", expected));
}

std::optional<std::size_t> number(std::string_view text) {
  std::size_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (problem != std::errc() || value == 0) return std::nullopt;
  if (unit.empty()) return value;
  const std::string_view units = "kmg";
  const std::size_t at = units.find(unit);
  if (unit.size() != 1 || at == std::string_view::npos || value >> 33 != 0) return std::nullopt;
  return value << (10 * (at + 1));
}

std::size_t host_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 16 * kGiB;
  return static_cast<std::size_t>(pages) * static_cast<std::size_t>(page_bytes);
}

DeviceModel find_preset(std::string_view name) {
  for (const Preset& preset : presets()) {
    if (name != preset.arch && name != preset.gpu) continue;
    DeviceModel model = preset.model;
    model.name = cat("sim:", name);
    model.memory_bytes = std::min(model.memory_bytes, host_bytes());
    return model;
  }
  refuse(name,
         "sm_80, sm_86, sm_89, sm_90a, sm_120a, a100, rtx3090, rtx4090, h100, h200 or rtx5090");
}

}  // namespace

std::vector<DeviceModel> parse_device_models(std::string_view given) {
  std::string text = lower_case(trim(given));
  if (text.starts_with("sim:")) text.erase(0, 4);
  const std::size_t colon = std::min(text.find(':'), text.size());
  DeviceModel model = find_preset(colon == 0 ? "sm_90a" : text.substr(0, colon));
  std::size_t count = 1;
  for (std::size_t begin = colon + 1; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string key = item.substr(0, equals);
    const auto value = number(std::string_view(item).substr(std::min(equals + 1, item.size())));
    if (!value) refuse(item, "sms=, memory= or count= with a number");
    if (key == "sms" && *value <= 4096) {
      model.num_sms = static_cast<int>(*value);
    } else if (key == "memory") {
      model.memory_bytes = *value;
    } else if (key == "count" && *value <= 64) {
      count = *value;
    } else {
      refuse(item, "sms=, memory= or count= with a number");
    }
    begin = end + 1;
  }
  return std::vector<DeviceModel>(count, model);
}

}  // namespace gpk::sim::driver
