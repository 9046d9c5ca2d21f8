#include "ops/cpu_backend.h"

#include "base/error.h"
#include "base/text.h"
#include "core/graph.h"

namespace gpk::ops {
namespace {

CpuBackend& backend() {
  static auto* instance = new CpuBackend;
  return *instance;
}

void run_now(const CpuCall& call) {
  if (!backend())
    throw Error(cat(call.op, ": no CPU backend is set; the Python package provides one"));
  backend()(call);
}

}  // namespace

void set_cpu_backend(CpuBackend b) { backend() = std::move(b); }

void run_on_cpu(CpuCall call) {
  if (Graph* graph = capturing_graph(); graph != nullptr && !graph->device().is_cuda()) {
    graph->record_host_call([call = std::move(call)] { run_now(call); });
    return;
  }
  run_now(call);
}

}  // namespace gpk::ops
