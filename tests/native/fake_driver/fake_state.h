// What the fake driver keeps beside the simulator's machine, and the driver functions that it
// changes. All of it is used with the mutex held.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "fake_driver/fake_driver.h"
#include "sim/driver/machine.h"
#include "sim/program.h"

namespace fake {

namespace sim = gpk::sim::driver;
using cu::Result;

// The simulated driver's functions by name, save those declared here: they hide its own.
namespace impl {
using namespace gpk::sim::driver;

// fake_stream.cpp
Result cuCtxSynchronize();
Result cuStreamDestroy(Stream stream);
Result cuStreamSynchronize(Stream stream);
Result cuStreamQuery(Stream stream);
Result cuEventDestroy(Event event);
Result cuEventRecord(Event event, Stream stream);
Result cuEventSynchronize(Event event);
Result cuEventQuery(Event event);
Result cuEventElapsedTime(float* ms, Event start, Event stop);

// fake_module.cpp
Result cuModuleLoadDataEx(Module* module, const void* image, unsigned num_options, int* options,
                          void** values);
Result cuLinkAddData(LinkState link, int type, void* data, std::size_t bytes, const char* name,
                     unsigned num_options, int* options, void** values);
Result cuModuleGetFunction(Function* function, Module module, const char* name);
Result cuFuncGetAttribute(int* value, int attribute, Function function);
Result cuLaunchKernelEx(const LaunchConfig* config, Function function, void** params, void** extra);
}  // namespace impl

enum CallId : int {
#define GPK_CU(name, version, symbol, need, params) k_##name,
#include "core/driver_functions.def"
#undef GPK_CU
  kNumCalls,
};

// What the simulator knows of a kernel that is a host function.
struct HostKernel {
  gpk::sim::Program program;
  gpk::sim::Function function;
  gpk::sim::Kernel kernel{program, function};
};

void scale(const Launch& launch, void** params);  // (float* x, float factor, int n)

struct State {
  std::map<std::string, std::vector<std::size_t>> param_sizes;
  std::map<std::string, std::map<int, int>> attributes;
  std::set<std::string> missing;
  std::map<std::string, std::size_t> globals;
  std::map<std::string, KernelBody> bodies{{"scale", scale}};
  std::optional<std::pair<Result, std::string>> module_failure;
  std::map<int, std::pair<Result, bool>> failures;  // by CallId: code, once

  std::deque<HostKernel> kernels;
  std::set<const sim::SimStream*> busy;
  std::map<cu::Event, const sim::SimStream*> pending;  // recorded on a busy stream
  double clock_ms = 0.0;
  Launch submission;  // of the call that runs: its stream and flags

  std::size_t num_calls[kNumCalls] = {};
  std::vector<Launch> launches;
  std::vector<StreamCall> stream_calls;
};

std::mutex& mutex();
State& state();

// Logs a launch and runs its body, in place of the interpreter.
gpk::sim::LaunchResult run_launch(const sim::KernelLaunch& launch);

}  // namespace fake
