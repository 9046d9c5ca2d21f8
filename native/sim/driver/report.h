// What launches reported: findings as text, and the JSON that gpkSimTakeReport returns.
#pragma once

#include <string>

#include "sim/driver/machine.h"

namespace gpk::sim::driver {

// "saxpy.cu:5: out of bounds: <text> (kernel saxpy, block (0, 0, 0), thread (32, 0, 0))".
std::string to_string(const Finding& finding);

// Logs the findings and keeps the launch, as `options` say. With the machine's lock held.
void record_launch(const KernelLaunch& launch, const LaunchResult& result,
                   const SimOptions& options);

}  // namespace gpk::sim::driver
