// Packs Python arguments into the bytes of a kernel launch, by descriptors built once per kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/python.h"
#include "core/array.h"
#include "core/launch.h"
#include "jit/program.h"
#include "jit/signature.h"

namespace gpk::bind {

struct ArgSpec {
  jit::ParamKind kind = jit::ParamKind::kOpaque;
  std::uint32_t bytes = 0;   // 0: any size (unknown to us and to the driver)
  std::uint32_t offset = 0;  // in the packed arguments
  std::optional<DType> dtype;
  PyObject* name = nullptr;  // interned; nullptr when the source has none
  std::string type;          // as written in the source
};

// A kernel and everything needed to call it. Shared by the Python object, bound calls and graphs.
struct KernelState {
  KernelState() = default;
  ~KernelState();  // takes the GIL: graphs may release a state without it
  KernelState(const KernelState&) = delete;
  KernelState& operator=(const KernelState&) = delete;

  std::shared_ptr<jit::Program> program;
  std::shared_ptr<Kernel> kernel;  // null on the CPU device
  // On the CPU device without a reference: the kernel in the simulator, or why it cannot run there.
  std::shared_ptr<jit::HostKernel> host_kernel;
  std::exception_ptr host_problem;
  Device device;
  std::string function;
  int block_size = 256;
  std::int64_t max_blocks = 0;  // of a 1-D grid on this device
  std::vector<ArgSpec> args;
  std::size_t packed_bytes = 0;
  py::object reference;  // Python function used on the CPU; none: there is none
};

// What can be checked before the source is compiled: the signature. Throws InvalidArgument when the
// source has no such function, for a block size out of range, or when `reference` is neither None
// nor callable.
jit::Signature check_kernel(const std::string& source, const std::string& function,
                            std::int64_t block_size, py::handle reference);

// `function` as the user wrote it; `signature` is the result of check_kernel for these arguments.
std::shared_ptr<KernelState> make_kernel_state(std::shared_ptr<jit::Program> program,
                                               const jit::Signature& signature,
                                               const std::string& function, int block_size,
                                               py::object reference);

// One call's arguments, packed. On the stack for ordinary kernels.
class PackedArgs {
 public:
  explicit PackedArgs(const KernelState& state);
  PackedArgs(const PackedArgs&) = delete;
  PackedArgs& operator=(const PackedArgs&) = delete;

  // Converts `values` (borrowed, one per parameter). Throws InvalidArgument naming kernel,
  // argument, type and value.
  void convert(PyObject* const* values);

  [[nodiscard]] void** params() noexcept { return params_; }
  [[nodiscard]] std::int64_t largest_elems() const noexcept { return largest_; }
  [[nodiscard]] bool has_array() const noexcept { return num_arrays_ > 0; }
  [[nodiscard]] std::span<const Array* const> arrays() const noexcept {
    return {arrays_, num_arrays_};
  }

 private:
  void convert_pointer(const ArgSpec& spec, std::size_t index, PyObject* value, std::byte* out);

  static constexpr std::size_t kInlineBytes = 512;
  static constexpr std::size_t kInlineArgs = 24;
  const KernelState& state_;
  alignas(16) std::byte inline_bytes_[kInlineBytes];
  void* inline_params_[kInlineArgs];
  const Array* inline_arrays_[kInlineArgs];
  std::unique_ptr<std::byte[]> heap_bytes_;
  std::unique_ptr<void*[]> heap_params_;
  std::unique_ptr<const Array*[]> heap_arrays_;
  void** params_;
  const Array** arrays_;
  std::size_t num_arrays_ = 0;
  std::int64_t largest_ = 0;
};

// Launch options of a call, as given: grid=, block=, shared_mem=, cluster=, stream=, cooperative=,
// programmatic=, grid_size=.
struct CallOptions {
  LaunchConfig config;
  bool has_grid = false;
  bool has_block = false;
  std::shared_ptr<Stream> stream;  // null: the current one
};

// Sorts a vectorcall's arguments into `values` (one per parameter) and options. Throws
// InvalidArgument (kType) for missing, surplus, duplicate and unknown arguments.
CallOptions match_arguments(const KernelState& state, PyObject* const* args, std::size_t num_args,
                            PyObject* kwnames, PyObject** values);

// Fills in defaults: block_size, and a 1-D grid that covers the largest array. False when there is
// nothing to do (all arrays are empty).
bool complete_config(const KernelState& state, const PackedArgs& args, CallOptions& options);

// The state of a live kernel, for graphs; nullptr when it is not a jit kernel.
std::shared_ptr<KernelState> state_of(const Kernel* kernel);

}  // namespace gpk::bind
