// The exported functions: every line of core/driver_functions.def as a C symbol of the name that a
// real libcuda exports.
#pragma once

#include "core/driver_api.h"

#define GPK_SIM_EXPORT __attribute__((visibility("default")))

namespace gpk::sim::driver {

using namespace gpk::cu;  // the parameter types of the list
using gpk::cu::Function;  // not those of gpk::sim
using gpk::cu::Module;

extern "C" {
#define GPK_CU(name, version, symbol, need, params) \
  GPK_SIM_EXPORT Result name params __asm__(symbol);
#include "core/driver_functions.def"
#undef GPK_CU
}

}  // namespace gpk::sim::driver
