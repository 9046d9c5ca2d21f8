// Immediate post-dominators (Cooper, Harvey and Kennedy's algorithm on the reversed graph).
#include <algorithm>
#include <vector>

#include "sim/control.h"
#include "sim/lower.h"
#include "sim/machine.h"

namespace gpk::sim {
namespace {

struct Graph {
  std::vector<std::size_t> first;            // op of each basic block
  std::vector<int> block_of;                 // of each op
  std::vector<std::vector<int>> next, prev;  // the last node is the exit
};

bool is_branch(const Op& op) { return op.run == branch; }
bool leaves(const Op& op) { return op.run == return_from || op.run == exit_lanes; }

Graph graph_of(const Function& function) {
  const std::vector<Op>& code = function.code;
  std::vector<bool> leader(code.size() + 1, false);
  leader[0] = true;
  for (std::size_t i = 0; i < code.size(); ++i) {
    const Op& op = code[i];
    if (is_branch(op)) leader[op.imm] = true;
    if (op.run == branch_table)
      for (std::int32_t k = 0; k < function.args[op.args]; ++k)
        leader[static_cast<std::size_t>(
            function.args[op.args + 1 + static_cast<std::uint32_t>(k)])] = true;
    if (is_branch(op) || op.run == branch_table || leaves(op) || op.run == trap ||
        op.run == call_indirect)
      leader[i + 1] = true;
  }
  Graph graph;
  graph.block_of.resize(code.size());
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (leader[i]) graph.first.push_back(i);
    graph.block_of[i] = static_cast<int>(graph.first.size()) - 1;
  }
  const std::size_t blocks = graph.first.size();
  graph.next.resize(blocks + 1);
  graph.prev.resize(blocks + 1);
  const int exit = static_cast<int>(blocks);
  const auto edge = [&](std::size_t from, int to) {
    graph.next[from].push_back(to);
    graph.prev[static_cast<std::size_t>(to)].push_back(static_cast<int>(from));
  };
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t end = b + 1 < blocks ? graph.first[b + 1] : code.size();
    const Op& op = code[end - 1];
    const bool guarded = op.guard != kNoCell;
    bool falls = true;
    if (is_branch(op)) {
      edge(b, graph.block_of[op.imm]);
      falls = guarded;
    } else if (op.run == branch_table) {
      for (std::int32_t k = 0; k < function.args[op.args]; ++k)
        edge(b, graph.block_of[static_cast<std::size_t>(
                    function.args[op.args + 1 + static_cast<std::uint32_t>(k)])]);
      falls = guarded;
    } else if (leaves(op)) {
      edge(b, exit);
      falls = guarded;
    } else if (op.run == trap) {
      falls = guarded;
    }
    if (falls && b + 1 < blocks) edge(b, static_cast<int>(b) + 1);
  }
  return graph;
}

std::vector<int> post_dominators(const Graph& graph) {
  const std::size_t nodes = graph.next.size();
  const int exit = static_cast<int>(nodes) - 1;
  std::vector<int> order(nodes, -1);  // postorder number on the reversed graph
  std::vector<int> by_order;
  std::vector<std::pair<int, std::size_t>> stack{{exit, 0}};
  std::vector<bool> seen(nodes, false);
  seen[static_cast<std::size_t>(exit)] = true;
  while (!stack.empty()) {
    auto& [node, at] = stack.back();
    const auto& prev = graph.prev[static_cast<std::size_t>(node)];
    if (at < prev.size()) {
      const int one = prev[at++];
      if (!seen[static_cast<std::size_t>(one)]) {
        seen[static_cast<std::size_t>(one)] = true;
        stack.emplace_back(one, 0);
      }
      continue;
    }
    order[static_cast<std::size_t>(node)] = static_cast<int>(by_order.size());
    by_order.push_back(node);
    stack.pop_back();
  }
  std::vector<int> idom(nodes, -1);
  idom[static_cast<std::size_t>(exit)] = exit;
  const auto number = [&](int node) { return order[static_cast<std::size_t>(node)]; };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t k = by_order.size(); k-- > 0;) {
      const int node = by_order[k];
      if (node == exit) continue;
      int best = -1;
      for (const int succ : graph.next[static_cast<std::size_t>(node)]) {
        if (idom[static_cast<std::size_t>(succ)] < 0) continue;
        if (best < 0) {
          best = succ;
          continue;
        }
        int a = best;
        int b = succ;
        while (a != b) {
          while (number(a) < number(b)) a = idom[static_cast<std::size_t>(a)];
          while (number(b) < number(a)) b = idom[static_cast<std::size_t>(b)];
        }
        best = a;
      }
      if (best >= 0 && idom[static_cast<std::size_t>(node)] != best) {
        idom[static_cast<std::size_t>(node)] = best;
        changed = true;
      }
    }
  }
  return idom;
}

}  // namespace

void insert_joins(Function& function) {
  const Graph graph = graph_of(function);
  const std::vector<int> idom = post_dominators(graph);
  const std::size_t blocks = graph.first.size();
  const int exit = static_cast<int>(blocks);
  std::vector<bool> joins(blocks + 1, false);
  const std::vector<Op>& code = function.code;
  const auto join_of = [&](std::size_t i) {
    const int block = idom[static_cast<std::size_t>(graph.block_of[i])];
    return block < 0 || block == exit ? -1 : block;
  };
  for (std::size_t i = 0; i < code.size(); ++i) {
    const bool diverges =
        (is_branch(code[i]) && code[i].guard != kNoCell) || code[i].run == branch_table;
    if (diverges && join_of(i) >= 0) joins[static_cast<std::size_t>(join_of(i))] = true;
    if (code[i].run == call_indirect && i + 1 < code.size())
      joins[static_cast<std::size_t>(graph.block_of[i + 1])] = true;
  }
  std::vector<std::size_t> moved(code.size());
  std::vector<Op> result;
  result.reserve(code.size() + blocks);
  for (std::size_t i = 0; i < code.size(); ++i) {
    const auto block = static_cast<std::size_t>(graph.block_of[i]);
    moved[i] = result.size();
    if (graph.first[block] == i && joins[block]) {
      Op op;
      op.run = join_here;
      op.control = true;
      op.location = code[i].location;
      result.push_back(op);
    }
    result.push_back(code[i]);
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < code.size(); ++i) {
    at = moved[i] + (graph.first[static_cast<std::size_t>(graph.block_of[i])] == i &&
                             joins[static_cast<std::size_t>(graph.block_of[i])]
                         ? 1
                         : 0);
    Op& op = result[at];
    if (is_branch(op) || op.run == branch_table) {
      const int block = join_of(i);
      op.c = block < 0 ? kNoJoin
                       : static_cast<Cell>(moved[graph.first[static_cast<std::size_t>(block)]]);
    }
    if (is_branch(op)) op.imm = moved[op.imm];
    if (op.run == branch_table)
      for (std::int32_t k = 0; k < function.args[op.args]; ++k) {
        auto& target = function.args[op.args + 1 + static_cast<std::uint32_t>(k)];
        target = static_cast<std::int32_t>(moved[static_cast<std::size_t>(target)]);
      }
  }
  function.code = std::move(result);
}

}  // namespace gpk::sim
