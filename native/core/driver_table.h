// Fills a table of driver functions from a library.
#pragma once

#include <string>

#include "core/driver_api.h"
#include "core/library.h"

namespace gpk::inline core {

// cuGetProcAddress by base name and version, else the exported symbol. Returns what is missing that
// we require: "the CUDA driver (version 11000) is too old: it lacks ..."; empty: nothing.
std::string fill_driver_table(const SharedLibrary& library, int driver_version, cu::DriverApi& api);

}  // namespace gpk::inline core
