// The insides of the fake driver, shared by its files. All of it is used with the mutex held.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "fake_driver/fake_driver.h"

namespace fake {

using cu::Result;

// Results that core/driver_api.h does not name.
enum : Result {
  kPeerAccessNotEnabled = 705,
  kIllegalState = 401,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kInvalidClusterSize = 912,
  kInvalidResourceType = 914,
  kInvalidResourceConfiguration = 915,
};

enum CallId : int {
#define GPK_CU(name, version, symbol, need, params) k_##name,
#include "core/driver_functions.def"
#undef GPK_CU
  kNumCalls,
};
CallId call_id(const std::string& function);  // throws std::invalid_argument

// The functions themselves; api() wraps each in lock, count and injected errors.
namespace impl {
using namespace gpk::cu;  // the parameter types of the list
#define GPK_CU(name, version, symbol, need, params) Result name params;
#include "core/driver_functions.def"
#undef GPK_CU
}  // namespace impl

// Objects by handle; a handle is the object's address.
template <class Object, class Handle>
class Store {
 public:
  Handle add(std::unique_ptr<Object> object) {
    auto handle = reinterpret_cast<Handle>(object.get());
    objects_[handle] = std::move(object);
    return handle;
  }
  Object* find(Handle handle) {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.get();
  }
  bool erase(Handle handle) { return objects_.erase(handle) > 0; }
  [[nodiscard]] std::size_t size() const { return objects_.size(); }
  auto begin() { return objects_.begin(); }
  auto end() { return objects_.end(); }

 private:
  std::map<Handle, std::unique_ptr<Object>> objects_;
};

struct Node {  // of a graph: a launch, or a copy or fill
  std::optional<Launch> launch;
  std::function<void()> effect;
};

struct FakeGraph {
  std::vector<std::unique_ptr<Node>> nodes;  // in capture order, which is a topological order
};

struct FakeGraphExec {
  int device = 0;
  std::vector<std::pair<const Node*, Node>> nodes;  // (node of the graph, what to run)
};

struct Capture {
  cu::Stream origin = nullptr;
  int device = 0;
  std::thread::id thread;
  int mode = 0;
  bool invalid = false;
  std::unique_ptr<FakeGraph> graph = std::make_unique<FakeGraph>();
};

struct FakeGreen {
  int device = 0;
  unsigned num_sms = 0;
};

struct FakeDesc {
  int device = 0;
  unsigned num_sms = 0;
};

struct FakeStream {
  int device = 0;
  unsigned num_sms = 0;  // of its green context; 0: it has none
  cu::Stream handle = nullptr;
  unsigned flags = 0;
  int priority = 0;
  bool busy = false;
  std::shared_ptr<Capture> capture;
  std::vector<cu::GraphNode> tail;  // what the next captured node depends on
};

struct FakeEvent {
  int device = 0;
  unsigned flags = 0;
  bool recorded = false;
  cu::Stream stream = nullptr;  // last recorded on
  bool pending = false;         // that stream was busy
  double time_ms = 0.0;
  std::shared_ptr<Capture> capture;  // recorded inside
  std::vector<cu::GraphNode> tail;
};

struct FakeFunction {
  cu::Module module = nullptr;
  int device = 0;
  std::string name;
  std::map<int, int> attributes;
  std::optional<std::vector<std::size_t>> ptx_params;
};

struct FakeLink {
  std::string text;
};

struct FakeModule {
  int device = 0;
  std::string text;  // empty for binary images
  Store<FakeFunction, cu::Function> functions;
  std::map<std::string, std::vector<std::max_align_t>> globals;
};

struct FakeContext {
  int device = 0;
  FakeStream legacy;
  Result lost = cu::kSuccess;
  std::set<cu::Context> peers;
};

struct Block {
  std::size_t bytes = 0;
  int device = 0;
  bool registered = false;  // memory of the caller
};

// Virtual memory: address ranges, chunks of the memory file, and the mapping between them.
struct Mapping {
  std::size_t bytes = 0;
  cu::MemoryHandle handle = 0;
  int device = 0;
  bool accessible = false;
};

struct VirtualMemory {
  int file = -1;
  std::map<std::uintptr_t, std::size_t> ranges;  // reserved, by address
  std::map<cu::MemoryHandle, Block> chunks;      // a handle is an offset in the file plus 1
  std::map<std::uintptr_t, Mapping> mappings;    // by address
  std::map<std::size_t, std::vector<cu::MemoryHandle>> free_chunks;  // by size
  cu::MemoryHandle next = 1;
};

struct Settings {
  std::map<std::string, std::vector<std::size_t>> param_sizes;
  std::map<std::string, std::map<int, int>> attributes;
  std::set<std::string> missing;
  std::map<std::string, std::size_t> globals;
  std::map<std::string, KernelBody> bodies;
  std::optional<std::pair<Result, std::string>> module_failure;
  std::map<int, std::pair<Result, bool>> failures;  // by CallId: code, once
};

struct State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  std::uint64_t epoch = 0;  // of reset(): a thread's current context may be of an older one
  bool initialized = false;
  int driver_version = 13000;
  std::vector<DeviceConfig> devices = std::vector<DeviceConfig>(1);
  std::map<int, cu::Context> primary;  // by device
  Store<FakeContext, cu::Context> contexts;
  Store<FakeStream, cu::Stream> streams;
  Store<FakeEvent, cu::Event> events;
  Store<FakeLink, cu::LinkState> links;
  Store<FakeModule, cu::Module> modules;
  std::map<cu::Function, FakeFunction*> functions;  // of all modules
  Store<FakeGreen, cu::GreenCtx> greens;
  Store<FakeDesc, cu::ResourceDesc> descs;
  int num_splits = 0;
  Store<FakeGraph, cu::Graph> graphs;
  Store<FakeGraphExec, cu::GraphExec> execs;
  std::map<std::uintptr_t, Block> memory;
  std::map<std::uintptr_t, Block> globals;  // owned by their modules
  std::map<std::uintptr_t, Block> pinned;
  VirtualMemory virtual_memory;
  std::vector<std::weak_ptr<Capture>> captures;
  Settings settings;
  std::size_t num_calls[kNumCalls] = {};
  std::vector<Launch> launches;
  std::vector<StreamCall> stream_calls;
  double clock_ms = 0.0;
};

std::mutex& mutex();
State& state();

bool is_sticky(Result result);

// The calling thread's context; nullptr where none is current.
FakeContext* current_context();

// The object behind a stream handle, also for the legacy stream of the current context.
FakeStream* find_stream(cu::Stream handle);

// Runs `node` on the stream now, or adds it to the stream's capture.
Result submit(FakeStream& stream, const char* call, Node node);
void run_node(const Node& node, cu::Stream stream);

// CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED where the calling thread captures and has not relaxed its
// mode; breaks that capture.
Result check_unsafe_call();
// Breaks all captures of a device's streams; true if there were some.
bool break_captures_of(int device);

// The device whose mapped, accessible memory holds the whole range; -1: none does.
int mapped_device(std::uintptr_t address, std::size_t bytes);
std::size_t created_bytes(int device);
void release_virtual_memory(VirtualMemory& memory);

bool inside_block(const std::map<std::uintptr_t, Block>& blocks, std::uintptr_t address,
                  std::size_t bytes);

std::vector<std::size_t> param_sizes(const FakeFunction& function);

// Kernels that the fake itself knows, by exact name.
struct BuiltinKernel {
  const char* name;
  std::vector<std::size_t> param_sizes;
  KernelBody body;
};
const BuiltinKernel* find_builtin(const std::string& name);

// Sizes of the parameters of entry `name` of a PTX text; nothing where it has no such entry.
bool has_ptx_entries(const std::string& text);
std::optional<std::vector<std::size_t>> ptx_param_sizes(const std::string& text,
                                                        const std::string& name);

}  // namespace fake
