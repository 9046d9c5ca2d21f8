#include "core/sim_driver.h"

#include <memory>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "core/driver_table.h"

namespace gpk::inline core {
namespace {

#ifdef _WIN32
constexpr const char* kName = "pygpukit_sim.dll";
#else
constexpr const char* kName = "libpygpukit_sim.so";
#endif

struct Loaded {
  std::mutex mutex;
  std::unique_ptr<const SimDriver> driver;
};

Loaded& loaded() {
  static auto* instance = new Loaded;  // never destroyed: used by objects that outlive main()
  return *instance;
}

std::unique_ptr<const SimDriver> load() {
  std::vector<std::string> tried;
  SharedLibrary library;
  for (const std::string& name : sim_library_names()) {
    std::string why;
    library = SharedLibrary::open(name, &why);
    if (library) break;
    tried.push_back(cat(name, ": ", why));
  }
  if (!library)
    throw GpuUnavailable(cat("the GPU simulator was not found. Tried:\n  ", join(tried, "\n  ")));
  auto made = std::make_unique<SimDriver>();
  constexpr int kVersion = 13000;
  std::string problem = fill_driver_table(library, kVersion, made->driver);
  if (!fill_sim_table(library, made->sim)) problem = cat(kName, " is not the GPU simulator");
  if (problem.empty() && made->driver.cuInit(0) != cu::kSuccess)
    problem = "the GPU simulator cannot start: PYGPUKIT_SIM_DEVICE names no device it knows";
  if (!problem.empty()) throw GpuUnavailable(problem);
  made->path = SharedLibrary::path_of(reinterpret_cast<const void*>(made->sim.gpkSimFault));
  return made;
}

}  // namespace

std::vector<std::string> sim_library_names() {
  const std::string self = SharedLibrary::path_of(reinterpret_cast<const void*>(&loaded));
  const std::size_t end = self.find_last_of("/\\");
  if (end == std::string::npos) return {kName};
  return {self.substr(0, end + 1) + kName, kName};
}

bool fill_sim_table(const SharedLibrary& library, cu::SimApi& api) {
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.symbol(name));
    complete = complete && function != nullptr;
  };
  find(api.gpkSimGetOptions, "gpkSimGetOptions");
  find(api.gpkSimSetOptions, "gpkSimSetOptions");
  find(api.gpkSimTakeReport, "gpkSimTakeReport");
  find(api.gpkSimFault, "gpkSimFault");
  find(api.gpkSimClearFault, "gpkSimClearFault");
  find(api.gpkSimNameMemory, "gpkSimNameMemory");
  find(api.gpkSimMarkMemory, "gpkSimMarkMemory");
  find(api.gpkSimHandOut, "gpkSimHandOut");
  return complete;
}

const SimDriver& sim_driver() {
  Loaded& state = loaded();
  const std::lock_guard lock(state.mutex);
  if (!state.driver) state.driver = load();
  return *state.driver;
}

}  // namespace gpk::inline core
