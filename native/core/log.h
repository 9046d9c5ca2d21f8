// Messages to stderr, by PYGPUKIT_LOG (off, error, warning, info, debug; default warning).
#pragma once

#include <string>

#include "core/config.h"

namespace gpk::inline core {

// True when a message of `level` would be written; test before building an expensive one.
bool log_enabled(LogLevel level) noexcept;

// "pygpukit: warning: <text>
// ", in one write. Never throws.
void log_message(LogLevel level, const std::string& text) noexcept;

}  // namespace gpk::inline core
