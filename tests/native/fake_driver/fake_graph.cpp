// Graphs: captured nodes, and executable copies of them.
#include <algorithm>
#include <cstring>

#include "fake_driver/fake_state.h"

namespace fake::impl {

Result cuGraphDestroy(Graph graph) {
  return state().graphs.erase(graph) ? kSuccess : kInvalidHandle;
}

Result cuGraphGetNodes(Graph graph, GraphNode* nodes, std::size_t* num_nodes) {
  const FakeGraph* found = state().graphs.find(graph);
  if (found == nullptr) return kInvalidHandle;
  if (nodes != nullptr)
    for (std::size_t i = 0; i < std::min(*num_nodes, found->nodes.size()); ++i)
      nodes[i] = reinterpret_cast<GraphNode>(found->nodes[i].get());
  *num_nodes = found->nodes.size();
  return kSuccess;
}

Result cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  const FakeGraph* found = state().graphs.find(graph);
  const FakeContext* context = current_context();
  if (found == nullptr) return kInvalidHandle;
  if (context == nullptr) return kInvalidContext;
  auto made = std::make_unique<FakeGraphExec>();
  made->device = context->device;
  for (const auto& node : found->nodes) {
    made->nodes.emplace_back(node.get(), *node);
    if (auto& launch = made->nodes.back().second.launch) launch->from_graph = true;
  }
  *exec = state().execs.add(std::move(made));
  return kSuccess;
}

Result cuGraphLaunch(GraphExec exec, Stream stream) {
  FakeGraphExec* found = state().execs.find(exec);
  FakeStream* target = find_stream(stream);
  if (found == nullptr || target == nullptr) return kInvalidHandle;
  if (target->device != found->device) return kInvalidValue;
  Node all;  // a child graph where the stream captures
  all.effect = [nodes = found->nodes, handle = target->handle] {
    for (const auto& [original, node] : nodes) run_node(node, handle);
  };
  return submit(*target, "cuGraphLaunch", std::move(all));
}

Result cuGraphExecDestroy(GraphExec exec) {
  return state().execs.erase(exec) ? kSuccess : kInvalidHandle;
}

Result cuGraphExecKernelNodeSetParams(GraphExec exec, GraphNode node,
                                      const KernelNodeParams* params) {
  FakeGraphExec* found = state().execs.find(exec);
  if (found == nullptr) return kInvalidHandle;
  for (auto& [original, copy] : found->nodes) {
    if (reinterpret_cast<GraphNode>(const_cast<Node*>(original)) != node || !copy.launch) continue;
    const auto function = state().functions.find(params->function);
    if (function == state().functions.end()) return kInvalidHandle;
    Launch& launch = *copy.launch;
    launch.function = function->second->name;
    launch.shared_bytes = params->shared_bytes;
    std::copy_n(params->grid, 3, launch.grid);
    std::copy_n(params->block, 3, launch.block);
    const std::vector<std::size_t> sizes = param_sizes(*function->second);
    launch.args.clear();
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const auto* bytes = static_cast<const std::byte*>(params->params[i]);
      launch.args.emplace_back(bytes, bytes + sizes[i]);
    }
    return kSuccess;
  }
  return kInvalidValue;
}

}  // namespace fake::impl
