#include "sim/module.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/round_up.h"
#include "sim/lower.h"
#include "sim/parser.h"
#include "sim/program.h"

namespace gpk::sim {

PtxError::PtxError(int line_at, const std::string& what)
    : std::runtime_error(line_at > 0 ? "line " + std::to_string(line_at) + ": " + what : what),
      line(line_at) {}

namespace {

constexpr std::size_t kRecursionBytes = 16384;  // stack of a thread where calls recurse

void declare(const ast::Module& source, Program& program, SymbolTable& symbols) {
  const auto add_shared = [&](const ast::Variable& variable) {
    symbols.shared[variable.name] = static_cast<std::uint32_t>(program.shared.size());
    program.shared.push_back(
        {std::string(variable.name), variable.bytes, variable.align, variable.bytes == 0});
  };
  for (const ast::Variable& variable : source.variables) {
    if (variable.space == ast::Variable::Space::kShared) {
      add_shared(variable);
      continue;
    }
    if (variable.space == ast::Variable::Space::kLocal ||
        variable.space == ast::Variable::Space::kParam)
      throw PtxError(variable.line, "variable of a function outside of it");
    if (variable.is_extern)
      throw PtxError(variable.line, "variable '" + std::string(variable.name) + "' is not defined");
    symbols.globals[variable.name] = static_cast<std::uint32_t>(program.globals.size());
    program.globals.push_back({std::string(variable.name), std::max<std::size_t>(variable.bytes, 1),
                               variable.align, variable.init,
                               variable.space == ast::Variable::Space::kConst});
    if (program.globals.back().init.size() < program.globals.back().bytes && !variable.init.empty())
      program.globals.back().init.resize(program.globals.back().bytes);
  }
  for (std::size_t i = 0; i < source.functions.size(); ++i) {
    const ast::Function& function = source.functions[i];
    for (const ast::Variable& variable : function.variables)
      if (variable.space == ast::Variable::Space::kShared) add_shared(variable);
    // A definition wins over its declarations.
    const auto [it, added] =
        symbols.functions.try_emplace(function.name, static_cast<std::uint32_t>(i));
    if (!added && function.defined) it->second = static_cast<std::uint32_t>(i);
  }
}

void resolve_initializers(const ast::Module& source, Program& program, const SymbolTable& symbols) {
  for (const ast::Variable& variable : source.variables) {
    const auto self = symbols.globals.find(variable.name);
    if (self == symbols.globals.end()) continue;
    for (const ast::Variable::Address& address : variable.addresses) {
      GlobalAddress out{self->second,   address.at,    false,        0,
                        address.offset, address.bytes, address.shift};
      if (const auto it = symbols.globals.find(address.symbol); it != symbols.globals.end()) {
        out.target = it->second;
      } else if (const auto fn = symbols.functions.find(address.symbol);
                 fn != symbols.functions.end()) {
        out.function = true;
        out.target = fn->second;
      } else {
        throw PtxError(variable.line,
                       "unknown symbol '" + std::string(address.symbol) + "' in an initialiser");
      }
      program.global_addresses.push_back(out);
    }
  }
}

void lay_out_params(const ast::Function& source, Function& out) {
  std::size_t at = 0;
  for (const ast::Variable& param : source.params) {
    at = round_up(at, param.align);
    out.kernel_params.push_back({at, param.bytes, param.align});
    at += param.bytes;
    if (at > 65536) throw PtxError(param.line, "parameters too large");
  }
  out.param_bytes = at;
}

// Functions a function can reach. Indirect calls may reach every function.
std::vector<std::uint32_t> reachable(const Program& program, std::uint32_t from, bool& recursive) {
  std::vector<char> state(program.functions.size(), 0);  // 1: on the path, 2: done
  std::vector<std::uint32_t> out;
  const std::function<void(std::uint32_t, int)> visit = [&](std::uint32_t index, int depth) {
    if (state[index] == 1) recursive = true;
    if (state[index] != 0) return;
    if (depth > 1000) throw PtxError(0, "calls nested too deeply");
    state[index] = 1;
    out.push_back(index);
    const Function& function = *program.functions[index];
    if (function.calls_indirectly) {
      recursive = true;
      for (std::uint32_t i = 0; i < program.functions.size(); ++i)
        if (!program.functions[i]->entry && !program.functions[i]->code.empty())
          visit(i, depth + 1);
    }
    for (const std::uint32_t callee : function.callees) visit(callee, depth + 1);
    state[index] = 2;
  };
  visit(from, 0);
  return out;
}

void finish_entries(Program& program) {
  for (std::uint32_t i = 0; i < program.functions.size(); ++i) {
    Function& entry = *program.functions[i];
    if (!entry.entry) continue;
    bool recursive = false;
    std::size_t end = kSharedReserved;
    std::size_t stack = 0;
    std::size_t dynamic_align = 16;
    for (const std::uint32_t index : reachable(program, i, recursive)) {
      const Function& function = *program.functions[index];
      stack += function.local_bytes;
      for (const std::uint32_t variable : function.shared_used) {
        const SharedVariable& shared = program.shared[variable];
        if (shared.dynamic) {
          dynamic_align = std::max(dynamic_align, shared.align);
          continue;
        }
        const bool known = std::any_of(entry.shared_layout.begin(), entry.shared_layout.end(),
                                       [&](const auto& one) { return one.first == variable; });
        if (known) continue;
        end = round_up(end, shared.align);
        entry.shared_layout.emplace_back(variable, static_cast<std::uint32_t>(end));
        end += shared.bytes;
        if (end >= (std::size_t{1} << kSharedOffsetBits))
          throw PtxError(0, entry.name + ": too much shared memory");
      }
    }
    entry.shared_end = round_up(end, dynamic_align);
    entry.stack_bytes = stack + (recursive ? kRecursionBytes : 0);
  }
}

std::unique_ptr<Program> lower_module(const ast::Module& source, int sm) {
  auto program = std::make_unique<Program>();
  program->sm = sm;
  program->files = source.files;
  program->locations.push_back({0, 0, 0});
  program->instructions.emplace_back();
  SymbolTable symbols;
  declare(source, *program, symbols);
  resolve_initializers(source, *program, symbols);
  ConstantPool pool;
  for (const ast::Function& function : source.functions) {
    auto out = std::make_unique<Function>();
    out->name = function.name;
    out->entry = function.entry && function.defined;
    if (function.max_threads != 0) out->max_threads = std::min(function.max_threads, 1024u);
    out->required_block = function.required_block;
    out->cluster = function.cluster;
    if (out->entry) lay_out_params(function, *out);
    program->functions.push_back(std::move(out));
  }
  for (std::size_t i = 0; i < source.functions.size(); ++i)
    if (source.functions[i].defined)
      Lowering(*program, pool, symbols, source, source.functions[i], *program->functions[i]).run();
  pool.finish(*program);
  finish_entries(*program);
  return program;
}

}  // namespace

Kernel::Kernel(const Program& program, const Function& function)
    : program_(&program), function_(&function) {}
const std::string& Kernel::name() const { return function_->name; }
std::span<const KernelParam> Kernel::params() const { return function_->kernel_params; }
std::size_t Kernel::param_bytes() const { return function_->param_bytes; }
std::size_t Kernel::static_shared_bytes() const { return function_->shared_end - kSharedReserved; }
std::size_t Kernel::local_bytes() const { return function_->local_bytes; }
unsigned Kernel::max_threads() const { return function_->max_threads; }
Dim3 Kernel::required_block() const { return function_->required_block; }
Dim3 Kernel::required_cluster() const { return function_->cluster; }

std::shared_ptr<const Module> Module::parse(std::string_view ptx, int sm) {
  ast::Module source = parse_ptx(ptx);
  source.text = ptx;
  if (source.target > sm && sm > 0)
    throw PtxError(0, "PTX for sm_" + std::to_string(source.target) + " on a device of sm_" +
                          std::to_string(sm));
  return std::make_shared<const Module>(lower_module(source, sm));
}

Module::Module(std::unique_ptr<const Program> program) : program_(std::move(program)) {
  for (const auto& function : program_->functions)
    if (function->entry) kernels_.push_back(std::make_unique<const Kernel>(*program_, *function));
}

Module::~Module() = default;

const Kernel* Module::find(std::string_view name) const {
  for (const auto& kernel : kernels_)
    if (kernel->name() == name) return kernel.get();
  return nullptr;
}

std::vector<const Kernel*> Module::kernels() const {
  std::vector<const Kernel*> out;
  for (const auto& kernel : kernels_) out.push_back(kernel.get());
  return out;
}

std::span<const GlobalVariable> Module::globals() const { return program_->globals; }

void place_globals(const Module& module, std::span<const std::uint64_t> addresses) {
  const auto globals = module.globals();
  for (std::size_t i = 0; i < globals.size(); ++i) {
    auto* at = reinterpret_cast<std::byte*>(addresses[i]);
    if (globals[i].init.empty())
      std::memset(at, 0, globals[i].bytes);
    else
      std::memcpy(at, globals[i].init.data(), globals[i].bytes);
  }
  if (module.kernels().empty()) return;
  for (const GlobalAddress& one : module.kernels()[0]->program().global_addresses) {
    std::uint64_t value = one.function ? kFunctionWindow + one.target : addresses[one.target];
    value = (value + one.offset) >> one.shift;
    std::memcpy(reinterpret_cast<std::byte*>(addresses[one.variable]) + one.at, &value,
                std::min(one.bytes, 8u));
  }
}

}  // namespace gpk::sim
