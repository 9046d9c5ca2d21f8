// A module of PTX: parsed, checked and lowered once, then run any number of times (launch.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/dim3.h"

namespace gpk::sim {

struct Program;   // program.h
struct Function;  // program.h

// "line 12: unsupported instruction 'foo.bar'". `line` counts from 1 in the PTX text, 0: none.
struct PtxError : std::runtime_error {
  PtxError(int line, const std::string& what);
  int line;
};

struct KernelParam {
  std::size_t offset, bytes, align;
};

// A variable of the module in .global or .const. `init` is empty (all zero) or has `bytes` bytes.
// Addresses of other variables in an initialiser are zero in `init`; place_globals fills them in.
struct GlobalVariable {
  std::string name;
  std::size_t bytes, align;
  std::vector<std::byte> init;
  bool constant;
};

// An entry of a module. Lives as long as the module.
class Kernel {
 public:
  Kernel(const Program& program, const Function& function);

  const std::string& name() const;
  std::span<const KernelParam> params() const;
  std::size_t param_bytes() const;
  std::size_t static_shared_bytes() const;
  std::size_t local_bytes() const;  // per thread, without the frames of functions it calls
  unsigned max_threads() const;     // .maxntid, or 1024
  Dim3 required_block() const;      // .reqntid; x = 0: none
  Dim3 required_cluster() const;    // .reqnctapercluster; x = 0: none
  const Program& program() const { return *program_; }
  const Function& function() const { return *function_; }

 private:
  const Program* program_;
  const Function* function_;
};

class Module {
 public:
  // Parses, checks and lowers PTX text for compute capability `sm` (90; features of 90a are
  // allowed). Everything unsupported is refused here, by instruction and line. Throws PtxError.
  static std::shared_ptr<const Module> parse(std::string_view ptx, int sm);

  explicit Module(std::unique_ptr<const Program> program);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const Kernel* find(std::string_view name) const;  // nullptr: no such entry
  std::vector<const Kernel*> kernels() const;
  std::span<const GlobalVariable> globals() const;

 private:
  std::unique_ptr<const Program> program_;
  std::vector<std::unique_ptr<const Kernel>> kernels_;
};

// Writes the initial bytes of every module variable to its address: addresses[i] is where
// globals()[i] lies, aligned to its `align`, with room for its `bytes`.
void place_globals(const Module& module, std::span<const std::uint64_t> addresses);

}  // namespace gpk::sim
