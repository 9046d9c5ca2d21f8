#include "fake_driver/fake_driver.h"

#include <memory>
#include <stdexcept>
#include <string_view>

#include "fake_driver/fake_state.h"

namespace fake {
namespace {

constexpr const char* kCallNames[] = {
#define GPK_CU(name, version, symbol, need, params) #name,
#include "core/driver_functions.def"
#undef GPK_CU
};

int call_id(const std::string& function) {
  for (int id = 0; id < kNumCalls; ++id)
    if (function == kCallNames[id]) return id;
  throw std::invalid_argument("fake driver: there is no function " + function);
}

bool is_sticky(Result result) {
  return result == cu::kContained || result == 700 || result == 702 || result == 710 ||
         (result >= 714 && result <= 719) || result == 721;
}

// Counts the call; the error that it was told to return.
Result enter(int id) {
  State& s = state();
  ++s.num_calls[id];
  const auto found = s.failures.find(id);
  if (found == s.failures.end()) return cu::kSuccess;
  const auto [code, once] = found->second;
  if (once) s.failures.erase(found);
  if (sim::SimContext* context = sim::current_context(); context != nullptr && is_sticky(code))
    context->lost = code;
  return code;
}

// Calls that put something into a stream.
constexpr bool is_submission(std::string_view name) {
  return name.starts_with("cuMemcpy") || name.starts_with("cuMemset") ||
         name.starts_with("cuLaunch") || name == "cuGraphLaunch" || name == "cuEventRecord" ||
         name == "cuStreamWaitEvent";
}

void pick(StreamCall& call, cu::Stream stream) { call.stream = stream; }
void pick(StreamCall& call, cu::Event event) { call.event = event; }
void pick(StreamCall& call, const cu::LaunchConfig* config) { call.stream = config->stream; }
template <class T>
void pick(StreamCall&, const T&) {}

template <auto kFunction, int kId>
struct Entry;

template <class... Args, Result (*kFunction)(Args...), int kId>
struct Entry<kFunction, kId> {
  static Result call(Args... args) {
    const std::lock_guard lock(mutex());
    if (const Result result = enter(kId); result != cu::kSuccess) return result;
    if constexpr (is_submission(kCallNames[kId])) {
      StreamCall call{.function = kCallNames[kId]};
      (pick(call, args), ...);
      const sim::SimStream* stream = sim::find_stream(call.stream);
      if (stream != nullptr) call.stream = stream->handle;
      state().submission = {};
      state().submission.from_graph = kId == k_cuGraphLaunch;
      state().submission.stream = call.stream;
      state().clock_ms += 0.001;
      const Result result = kFunction(args...);
      if (result == cu::kSuccess) state().stream_calls.push_back(std::move(call));
      return result;
    } else {
      return kFunction(args...);
    }
  }
};

cu::DriverApi make_api() {
  cu::DriverApi table;
#define GPK_CU(name, version, symbol, need, params) table.name = Entry<&impl::name, k_##name>::call;
#include "core/driver_functions.def"
#undef GPK_CU
  return table;
}

sim::DeviceModel model_of(const DeviceConfig& config) {
  const int shared = (config.sm >= 90 ? 227 : 163) << 10;
  return {.name = config.name,
          .sm = config.sm,
          .num_sms = config.num_sms,
          .memory_bytes = config.memory_bytes,
          .shared_optin_bytes = shared,
          .shared_per_sm_bytes = shared + 1024,
          .l2_bytes = 50 << 20,
          .peer_access = config.can_access_peers,
          .virtual_memory = config.virtual_memory,
          .green_launches = config.green_launches};
}

void use_devices(const std::vector<DeviceConfig>& devices) {
  sim::Machine& m = sim::machine();
  m.devices.clear();
  for (const DeviceConfig& config : devices) m.devices.push_back(model_of(config));
  m.primary.resize(m.devices.size());
}

std::unique_ptr<State> start() {
  sim::machine().problem.clear();
  sim::machine().seams = {
      .at_once = true, .now_ms = [] { return state().clock_ms; }, .run = run_launch};
  use_devices(std::vector<DeviceConfig>(1));
  return std::make_unique<State>();
}

std::unique_ptr<State>& state_slot() {
  static auto* slot = new std::unique_ptr<State>(start());  // outlives handles dropped at exit
  return *slot;
}

void set_failure(const std::string& function, Result code, bool once) {
  const int id = call_id(function);
  const std::lock_guard lock(mutex());
  state().failures[id] = {code, once};
}

}  // namespace

std::mutex& mutex() {
  static auto* instance = new std::mutex;
  return *instance;
}

State& state() { return *state_slot(); }

const cu::DriverApi& api() {
  static const cu::DriverApi table = make_api();
  return table;
}

void reset() {
  const std::lock_guard lock(mutex());
  state();
  sim::Machine& m = sim::machine();
  // Threads remember their context by its address, which must not become that of another one.
  static auto* kept = new std::vector<std::unique_ptr<sim::SimContext>>;
  for (auto& context : m.primary) kept->push_back(std::move(context));
  std::destroy_at(&m);
  std::construct_at(&m);
  state_slot() = start();
}

void set_devices(std::vector<DeviceConfig> devices) {
  const std::lock_guard lock(mutex());
  state();
  use_devices(devices);
}

void set_memory_bytes(int device, std::size_t bytes) {
  const std::lock_guard lock(mutex());
  sim::machine().devices.at(static_cast<std::size_t>(device)).memory_bytes = bytes;
}

void set_driver_version(int version) {
  const std::lock_guard lock(mutex());
  sim::machine().driver_version = version;
}

void fail_next(const std::string& function, Result code) { set_failure(function, code, true); }
void fail_always(const std::string& function, Result code) { set_failure(function, code, false); }

std::size_t num_live(Kind kind) {
  const std::lock_guard lock(mutex());
  const sim::Machine& m = sim::machine();
  using sim::MemoryKind;
  switch (kind) {
    case Kind::kStream: return m.streams.size();
    case Kind::kEvent: return m.events.size();
    case Kind::kModule: return m.modules.size();
    case Kind::kGraph: return m.graphs.size();
    case Kind::kGraphExec: return m.execs.size();
    case Kind::kMemory:
      return m.allocations.count(MemoryKind::kDevice) + m.virtual_memory.chunks.size();
    case Kind::kPinned:
      return m.allocations.count(MemoryKind::kPinned) +
             m.allocations.count(MemoryKind::kRegistered);
    case Kind::kGreenContext: return m.greens.size();
  }
  return 0;
}

std::size_t used_bytes(int device) {
  const std::lock_guard lock(mutex());
  return sim::used_bytes(device);
}

std::size_t num_calls(const std::string& function) {
  const int id = call_id(function);
  const std::lock_guard lock(mutex());
  return state().num_calls[id];
}

std::vector<Launch> launches() {
  const std::lock_guard lock(mutex());
  return state().launches;
}

std::vector<StreamCall> stream_calls() {
  const std::lock_guard lock(mutex());
  return state().stream_calls;
}

}  // namespace fake
