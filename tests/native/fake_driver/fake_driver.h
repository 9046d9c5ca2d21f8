// The simulated driver (native/sim/driver) as tests of host code need it: the same functions, with
// calls counted and made to fail, devices with settable traits, logs, and kernels that are host
// functions.
//
// Differences from the simulator, all on purpose: work is done when the submitting call returns,
// unless the stream was made busy (then only queries and event times pretend); PTX is not run, and
// every kernel name is found in every image that is not PTX with entries. One mutex around every
// call: kernel bodies run under it and must not call the driver or this interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/driver_api.h"

namespace fake {

namespace cu = gpk::cu;

// The function table, to be given to gpk::set_driver_for_testing.
const cu::DriverApi& api();

// Forgets everything: objects, memory, logs, injected errors, settings. One default device.
void reset();

// --- Settings ----------------------------------------------------------------------------------

struct DeviceConfig {
  std::string name = "Fake GPU";
  int sm = 90;
  int num_sms = 132;
  std::size_t memory_bytes = std::size_t{80} << 30;  // cuMemAlloc beyond: OUT_OF_MEMORY
  bool can_access_peers = true;
  bool virtual_memory = true;
  bool green_launches = true;  // kernels of the primary context run on streams of green contexts
};
// Before the first context is made.
void set_devices(std::vector<DeviceConfig> devices);
void set_memory_bytes(int device, std::size_t bytes);  // at any time
void set_driver_version(int version);

// Parameter sizes of a kernel, before it is looked up: for cuFuncGetParamInfo, and how many bytes a
// launch copies. Else they come from the PTX; else the kernel has no parameters. Known from the
// start: scale(float* x, float factor, int n), also its body.
void set_param_sizes(const std::string& function, std::vector<std::size_t> sizes_bytes);
void set_function_attribute(const std::string& function, int attribute, int value);  // likewise
void set_missing(const std::string& function);                    // cuModuleGetFunction: NOT_FOUND
void set_global(const std::string& variable, std::size_t bytes);  // of modules loaded later
void fail_module_load(cu::Result code, const std::string& log);   // the next cuModuleLoadDataEx

struct Launch {
  std::string function;
  unsigned grid[3] = {};
  unsigned block[3] = {};
  unsigned cluster[3] = {};  // (1, 1, 1): none
  unsigned shared_bytes = 0;
  bool cooperative = false;  // of the call; a replayed launch has neither
  bool programmatic = false;
  bool from_graph = false;
  cu::Stream stream = nullptr;
  std::vector<std::vector<std::byte>> args;
};
// The body of a kernel: runs once per launch (not per thread). params[i] points at args[i].
using KernelBody = std::function<void(const Launch& launch, void** params)>;
void set_body(const std::string& function, KernelBody body);

// Calls of `function` ("cuMemAlloc") return `code` without doing anything: the next one, or all. A
// sticky code (700, 719, ...) also loses the calling thread's context: from then on everything but
// error names, device queries and cuCtxGetCurrent / cuCtxSetCurrent returns it.
void fail_next(const std::string& function, cu::Result code);
void fail_always(const std::string& function, cu::Result code);

// A busy stream answers NOT_READY, as do events recorded on it meanwhile; synchronize ends it.
void set_busy(cu::Stream stream, bool busy);
// Moves the clock of events, which otherwise ticks one microsecond per submission.
void advance_ms(double ms);

// --- Inspection --------------------------------------------------------------------------------

enum class Kind { kStream, kEvent, kModule, kGraph, kGraphExec, kMemory, kPinned, kGreenContext };
// Objects made and not yet destroyed.
std::size_t num_live(Kind kind);
std::size_t used_bytes(int device);

std::size_t num_calls(const std::string& function);
std::vector<Launch> launches();

// Calls that put something into a stream, in order, captured ones included.
struct StreamCall {
  std::string function;
  cu::Stream stream = nullptr;
  cu::Event event = nullptr;
};
std::vector<StreamCall> stream_calls();

struct StreamInfo {
  unsigned flags = 0;
  int priority = 0;
  unsigned num_sms = 0;  // of its green context; 0: it has none
};
StreamInfo stream_info(cu::Stream stream);

}  // namespace fake
