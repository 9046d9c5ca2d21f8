// The insides of the simulated driver, shared by its files: everything that has a handle, and the
// lock around it.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/sim_api.h"
#include "sim/driver/allocations.h"
#include "sim/driver/device_model.h"
#include "sim/driver/functions.h"
#include "sim/driver/pool_arrays.h"
#include "sim/driver/work_queue.h"
#include "sim/launch.h"
#include "sim/module.h"

namespace gpk::sim::driver {

// Results that core/driver_api.h does not name.
enum : Result {
  kInvalidDevice = 101,
  kPeerAccessUnsupported = 217,
  kIllegalState = 401,
  kPeerAccessNotEnabled = 705,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kInvalidClusterSize = 912,
  kInvalidResourceType = 914,
  kInvalidResourceConfiguration = 915,
};

// Objects by handle; a handle is the object's address.
template <class Object, class Handle>
class Store {
 public:
  Handle add(std::shared_ptr<Object> object) {
    auto handle = reinterpret_cast<Handle>(object.get());
    objects_[handle] = std::move(object);
    return handle;
  }
  std::shared_ptr<Object> share(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  Object* find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.get();
  }
  bool erase(Handle handle) { return objects_.erase(handle) > 0; }
  [[nodiscard]] std::size_t size() const { return objects_.size(); }
  auto begin() { return objects_.begin(); }
  auto end() { return objects_.end(); }

 private:
  std::map<Handle, std::shared_ptr<Object>> objects_;
};

struct LoadedModule {
  int device = 0;
  std::shared_ptr<const sim::Module> program;
  std::uint64_t text_id = 0;  // of its PTX, by which a report names it
  std::vector<std::uint64_t> global_addresses;
};

struct SimFunction {
  std::shared_ptr<LoadedModule> module;
  const Kernel* kernel = nullptr;
  std::optional<int> max_dynamic_shared;
  bool large_clusters = false;
};

struct KernelLaunch {
  std::shared_ptr<LoadedModule> module;
  const Kernel* kernel = nullptr;
  LaunchShape shape;
  std::vector<std::byte> params;  // at the kernel's offsets
};

struct Node {  // of a graph, or one submission
  std::optional<KernelLaunch> launch;
  std::function<void()> effect;  // a copy or fill
};

struct SimGraph {
  std::vector<std::shared_ptr<Node>> nodes;  // in capture order, which is a topological order
};

struct SimGraphExec {
  int device = 0;
  std::vector<std::pair<const Node*, Node>> nodes;  // (node of the graph, what to run)
  std::shared_ptr<SimGraph> keep;                   // node handles stay unique while it lives
};

struct Capture {
  Stream origin = nullptr;
  int device = 0;
  std::thread::id thread;
  int mode = 0;
  bool invalid = false;
  std::shared_ptr<SimGraph> graph = std::make_shared<SimGraph>();
};

struct SimStream {
  int device = 0;
  unsigned num_sms = 0;  // of its green context; 0: it has none
  Stream handle = nullptr;
  unsigned flags = 0;
  int priority = 0;
  std::shared_ptr<WorkQueue> queue;
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode> tail;  // what the next captured node depends on
};

struct SimEvent {
  int device = 0;
  unsigned flags = 0;
  Ticket ticket;                    // of its last record
  std::shared_ptr<double> time_ms;  // null: never recorded; set when the ticket is reached
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode> tail;
};

struct SimContext {
  int device = 0;
  SimStream legacy;
  Result lost = kSuccess;
  std::set<Context> peers;
};

struct SmSet {  // of a green context or a resource descriptor
  int device = 0;
  unsigned num_sms = 0;
};

struct Chunk {  // physical memory of cuMemCreate
  std::size_t bytes = 0;
  int device = 0;
  bool released = false;  // and freed with its last mapping
  int num_mappings = 0;
};

struct Mapping {
  std::size_t bytes = 0;
  MemoryHandle handle = 0;
  bool accessible = false;
};

struct VirtualMemory {
  VirtualMemory() = default;
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;
  ~VirtualMemory();

  int file = -1;
  std::map<std::uint64_t, std::size_t> ranges;  // reserved, by address
  std::map<MemoryHandle, Chunk> chunks;         // a handle is an offset in the file plus 1
  std::map<std::uint64_t, Mapping> mappings;    // by address
  std::map<std::size_t, std::vector<MemoryHandle>> free_chunks;  // by size
  MemoryHandle next = 1;
};

// What another client of these objects may set before cuInit; the library leaves it as it is.
struct Seams {
  bool at_once = false;                                // work is done inside the submitting call
  double (*now_ms)() = nullptr;                        // the clock of events
  LaunchResult (*run)(const KernelLaunch&) = nullptr;  // in place of the interpreter
};

struct Machine {
  Machine();

  std::mutex mutex;
  // Of any queue. Replaced in a forked child, where old waiters would never leave it.
  std::unique_ptr<std::condition_variable> progress = std::make_unique<std::condition_variable>();
  bool initialized = false;
  int driver_version = 13000;
  std::vector<DeviceModel> devices;
  std::string problem;  // of PYGPUKIT_SIM_DEVICE

  std::vector<std::unique_ptr<SimContext>> primary;  // by device; null: not retained
  Store<SimStream, Stream> streams;
  Store<SimEvent, Event> events;
  Store<std::string, LinkState> links;
  Store<LoadedModule, Module> modules;
  Store<SimFunction, Function> functions;
  Store<SmSet, GreenCtx> greens;
  Store<SmSet, ResourceDesc> descs;
  int num_splits = 0;
  Store<SimGraph, Graph> graphs;
  Store<SimGraphExec, GraphExec> execs;
  std::vector<std::weak_ptr<Capture>> captures;
  Allocations allocations;
  PoolArrays arrays;
  VirtualMemory virtual_memory;

  Seams seams;
  SimOptions options{};
  std::string fault;  // text of the finding that lost a context, until it is cleared
};

Machine& machine();  // never destroyed: streams' threads outlive main()

// What a driver function needs before it may run.
enum class Need {
  kNothing,
  kInit,     // cuInit was called
  kLive,     // and the current context, if there is one, is not lost
  kContext,  // and there is one
};

// One driver call: holds the machine's lock.
class Call {
 public:
  explicit Call(Need need);
  [[nodiscard]] Result refused() const { return refused_; }

  // Waits without the lock until `done`, which is asked with it.
  template <class Done>
  void wait(const Done& done) {
    machine().progress->wait(lock_, done);
  }
  // Until all that was submitted to a device's streams so far is done.
  void wait_for_device(int device);

 private:
  std::unique_lock<std::mutex> lock_;
  Result refused_ = kSuccess;
};

SimContext* current_context();
SimContext* context_of(int device);
SimContext* find_context(Context handle);
const DeviceModel* find_device(Device device);
int optin_shared(int device);

// The object behind a stream handle, also for the legacy stream of the current context.
SimStream* find_stream(Stream handle);
std::shared_ptr<SimStream> make_stream(int device, unsigned flags, int priority);
std::shared_ptr<WorkQueue> make_queue();

// Runs `node` on the stream, or adds it to the stream's capture.
Result submit(SimStream& stream, Node node);
// Puts work into the stream's queue, after what the legacy stream's rules demand.
Ticket enqueue(SimStream& stream, std::function<void()> work, std::vector<Ticket> after = {});
// Runs it now, on a queue's thread, without the lock. Loses the context where a kernel faults.
void run_node(const Node& node, SimContext& context);

// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where the calling thread captures and has not relaxed its
// mode; breaks that capture.
Result check_unsafe_call();
bool break_captures_of(int device);

// Physical memory of a device.
std::size_t used_bytes(int device);
std::size_t unused_bytes(int device);
std::size_t created_bytes(int device);

// Fills the error log that the options of a load ask for.
void write_log(std::string_view log, unsigned num_options, const int* options, void** values);

// Parameters of a launch, copied at the kernel's offsets; nullopt where one is missing.
std::optional<std::vector<std::byte>> pack_params(const Kernel& kernel, void** params,
                                                  void** extra);
Result check_shape(const SimFunction& function, const LaunchShape& shape);

}  // namespace gpk::sim::driver
