// Graphs: captured nodes, and executable copies of them.
#include <algorithm>

#include "sim/driver/machine.h"

namespace gpk::sim::driver {

Result cuGraphDestroy(Graph graph) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  return machine().graphs.erase(graph) ? kSuccess : kInvalidHandle;
}

Result cuGraphGetNodes(Graph graph, GraphNode* nodes, std::size_t* num_nodes) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimGraph* found = machine().graphs.find(graph);
  if (found == nullptr) return kInvalidHandle;
  if (nodes != nullptr)
    for (std::size_t i = 0; i < std::min(*num_nodes, found->nodes.size()); ++i)
      nodes[i] = reinterpret_cast<GraphNode>(found->nodes[i].get());
  *num_nodes = found->nodes.size();
  return kSuccess;
}

Result cuGraphInstantiateWithFlags(GraphExec* exec, Graph graph, unsigned long long) {
  const Call call(Need::kContext);
  if (call.refused() != kSuccess) return call.refused();
  const std::shared_ptr<SimGraph> found = machine().graphs.share(graph);
  if (found == nullptr) return kInvalidHandle;
  auto made = std::make_shared<SimGraphExec>();
  made->device = current_context()->device;
  made->keep = found;
  for (const auto& node : found->nodes) made->nodes.emplace_back(node.get(), *node);
  *exec = machine().execs.add(std::move(made));
  return kSuccess;
}

Result cuGraphLaunch(GraphExec exec, Stream stream) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  const SimGraphExec* found = machine().execs.find(exec);
  SimStream* target = find_stream(stream);
  if (found == nullptr || target == nullptr) return kInvalidHandle;
  if (target->device != found->device) return kInvalidValue;
  std::vector<Node> nodes;
  for (const auto& [original, node] : found->nodes) nodes.push_back(node);
  Node all;  // a child graph where the stream captures
  all.effect = [nodes = std::move(nodes), context = context_of(target->device)] {
    for (const Node& node : nodes) run_node(node, *context);
  };
  return submit(*target, std::move(all));
}

Result cuGraphExecDestroy(GraphExec exec) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  return machine().execs.erase(exec) ? kSuccess : kInvalidHandle;
}

Result cuGraphExecKernelNodeSetParams(GraphExec exec, GraphNode node,
                                      const KernelNodeParams* params) {
  const Call call(Need::kLive);
  if (call.refused() != kSuccess) return call.refused();
  SimGraphExec* found = machine().execs.find(exec);
  if (found == nullptr) return kInvalidHandle;
  for (auto& [original, copy] : found->nodes) {
    if (reinterpret_cast<GraphNode>(const_cast<Node*>(original)) != node || !copy.launch) continue;
    const SimFunction* function = machine().functions.find(params->function);
    if (function == nullptr) return kInvalidHandle;
    LaunchShape shape = copy.launch->shape;
    shape.grid = {params->grid[0], params->grid[1], params->grid[2]};
    shape.block = {params->block[0], params->block[1], params->block[2]};
    shape.dynamic_shared_bytes = params->shared_bytes;
    if (const Result result = check_shape(*function, shape); result != kSuccess) return result;
    auto packed = pack_params(*function->kernel, params->params, params->extra);
    if (!packed) return kInvalidValue;
    copy.launch = KernelLaunch{function->module, function->kernel, shape, std::move(*packed)};
    return kSuccess;
  }
  return kInvalidValue;
}

}  // namespace gpk::sim::driver
