#include "sim/driver/report.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "base/trace_json.h"

namespace gpk::sim::driver {
namespace {

constexpr std::size_t kMaxLaunches = 4096;  // kept between two reports, and as many with findings

struct Kept {
  std::string json;
  std::size_t num_clean = 0;
  std::size_t num_faulty = 0;
};

Kept& kept() {
  static auto* instance = new Kept;
  return *instance;
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string triple(const Dim3& v) { return cat('(', v.x, ", ", v.y, ", ", v.z, ')'); }
std::string list(const Dim3& v) { return cat('[', v.x, ',', v.y, ',', v.z, ']'); }

// "scale" of "_Z5scalePffi", "fill<float>" of "_Z4fillIfEvPT_S0_i".
std::string readable(const std::string& symbol) {
  if (!symbol.starts_with("_Z")) return symbol;  // "f" would be float
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  if (status != 0 || text == nullptr) return symbol;
  std::string name(text);
  std::free(text);
  if (name.starts_with("void ")) name.erase(0, 5);
  int depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0 && name.compare(i, 10, "(anonymous") != 0) {
      name.resize(i);
      break;
    }
  }
  return name;
}

std::string json_of(const Finding& f) {
  return cat("{\"kind\":", json_string(f.kind), ",\"kernel\":", json_string(readable(f.kernel)),
             ",\"block\":", list(f.block), ",\"thread\":", list(f.thread),
             ",\"ptx_line\":", f.ptx_line, ",\"file\":", json_string(f.source_file),
             ",\"line\":", f.source_line, ",\"text\":", json_string(f.text), '}');
}

std::string json_of(const LineCounts& c) {
  return cat("{\"ptx_line\":", c.ptx_line, ",\"file\":", json_string(c.source_file),
             ",\"line\":", c.source_line, ",\"warp_ops\":", c.warp_ops,
             ",\"lane_ops\":", c.lane_ops, ",\"sectors\":", c.sectors,
             ",\"ideal_sectors\":", c.ideal_sectors, ",\"bank_conflicts\":", c.bank_conflicts, '}');
}

std::string json_of(const TraceInstruction& i) {
  std::vector<std::string> registers;
  for (const auto& [name, type] : i.registers)
    registers.push_back(cat('[', json_string(name), ',', json_string(type), ']'));
  return cat("{\"text\":", json_string(i.text), ",\"ptx_line\":", i.ptx_line,
             ",\"file\":", json_string(i.source_file), ",\"line\":", i.source_line,
             ",\"registers\":[", join(registers, ","), "]}");
}

std::string json_of(const TraceStep& step) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::byte byte : step.values) {
    hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
    hex += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return cat('[', step.instruction, ',', step.mask, ",\"", hex, "\"]");
}

template <class Items>
std::string array_of(const Items& items) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(json_of(item));
  return cat('[', join(texts, ","), ']');
}

std::string trace_of(const Trace& trace, const SimOptions& options) {
  if (options.trace_steps == 0) return "";
  return cat(",\"trace\":{\"complete\":", trace.complete ? "true" : "false",
             ",\"instructions\":", array_of(trace.instructions),
             ",\"steps\":", array_of(trace.steps), '}');
}

}  // namespace

std::string to_string(const Finding& f) {
  std::string text;
  if (f.source_line > 0) text = cat(f.source_file, ':', f.source_line, ": ");
  text += cat(f.kind, ": ", f.text, " (kernel ", readable(f.kernel), ", block ", triple(f.block),
              ", thread ", triple(f.thread));
  if (f.ptx_line > 0) text += cat(", PTX line ", f.ptx_line);
  return text + ')';
}

void record_launch(const KernelLaunch& launch, const LaunchResult& result,
                   const SimOptions& options) {
  if (options.log != 0)
    for (const Finding& finding : result.findings)
      std::fprintf(stderr, "pygpukit: sim: %s\n", to_string(finding).c_str());
  std::size_t& num_alike = result.findings.empty() ? kept().num_clean : kept().num_faulty;
  if (options.record == 0 || num_alike >= kMaxLaunches) return;
  ++num_alike;
  if (!kept().json.empty()) kept().json += ',';
  kept().json += cat("{\"kernel\":", json_string(readable(launch.kernel->name())),
                     ",\"module\":", launch.module->text_id, ",\"grid\":", list(launch.shape.grid),
                     ",\"block\":", list(launch.shape.block), ",\"ok\":", result.ok,
                     ",\"lane_ops\":", result.lane_ops, ",\"findings\":", array_of(result.findings),
                     ",\"counts\":", array_of(result.counts), trace_of(result.trace, options), '}');
}

}  // namespace gpk::sim::driver

extern "C" {

using gpk::cu::SimOptions;
using gpk::sim::driver::kept;
using gpk::sim::driver::machine;

GPK_SIM_EXPORT void gpkSimGetOptions(SimOptions* options) {
  const std::lock_guard lock(machine().mutex);
  *options = machine().options;
}

GPK_SIM_EXPORT void gpkSimSetOptions(const SimOptions* options) {
  const std::lock_guard lock(machine().mutex);
  machine().options = *options;
}

GPK_SIM_EXPORT const char* gpkSimTakeReport() {
  thread_local std::string text;
  const std::lock_guard lock(machine().mutex);
  text = gpk::cat('[', kept().json, ']');
  kept() = {};
  return text.c_str();
}

GPK_SIM_EXPORT const char* gpkSimFault() {
  thread_local std::string text;
  const std::lock_guard lock(machine().mutex);
  text = machine().fault;
  return text.c_str();
}

GPK_SIM_EXPORT void gpkSimClearFault() {
  const std::lock_guard lock(machine().mutex);
  machine().fault.clear();
  for (const auto& context : machine().primary)
    if (context != nullptr) context->lost = gpk::cu::kSuccess;
}

GPK_SIM_EXPORT void gpkSimNameMemory(std::uint64_t address, const char* name) {
  const std::lock_guard lock(machine().mutex);
  machine().allocations.rename(address, name);
}
}
