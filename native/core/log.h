// Messages to stderr, by PYGPUKIT_LOG (off, error, warning, info, debug; default warning).
#pragma once

#include <string>

#include "core/config.h"

namespace gpk::inline core {

// True when a message of `level` would be written; ask before building a costly text.
bool log_enabled(LogLevel level) noexcept;

// "pygpukit: warning: <text>\n", written whole. Never throws.
void log_message(LogLevel level, const std::string& text) noexcept;

}  // namespace gpk::inline core
