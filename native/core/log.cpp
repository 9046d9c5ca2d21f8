#include "core/log.h"

#include <cstdio>

#include "base/text.h"

namespace gpk::inline core {

bool log_enabled(LogLevel level) noexcept {
  try {
    return static_cast<int>(level) <= static_cast<int>(Config::get().log);
  } catch (...) {
    return level == LogLevel::kError;  // a broken environment must not silence errors
  }
}

void log_message(LogLevel level, const std::string& text) noexcept {
  if (!log_enabled(level)) return;
  static constexpr const char* kNames[] = {"", "error: ", "warning: ", "info: ", "debug: "};
  try {
    const std::string line = cat("pygpukit: ", kNames[static_cast<int>(level)], text, '\n');
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (...) {  // out of memory while logging: drop the message
  }
}

}  // namespace gpk::inline core
