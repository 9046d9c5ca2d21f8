// A chain of launches as one cooperative kernel: each with the bits of its own kernel, none of them
// with a launch. Blocks wait for each other between two of them, and weights of those to come are
// loaded meanwhile.
//
//   std::string why;
//   const auto chain = Chain::record(device, [&] { ops::linear(...); ... }, why);
//   if (chain) chain->launch();  // any number of times
//
// What the launches read and write is fixed by their arrays: values may change between launches. No
// launch writes a weight of a later one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "ops/chain/plan.h"

namespace gpk::ops {

class Chain {
 public:
  // Runs `launches`, whose ops launch nothing. None if one of them cannot be part of a chain, or if
  // all do not fit a kernel of the device: `why` says which. Throws what the ops throw. Not while a
  // graph is captured.
  static std::unique_ptr<Chain> record(Device device, const std::function<void()>& launches,
                                       std::string& why);

  // On the current stream. Can be captured.
  void launch() const;

  // A line for each phase.
  [[nodiscard]] std::string explain() const;

 private:
  Chain(chain::Recording recording, const chain::ChainPlan& plan, Device device);

  chain::Recording recording_;
  chain::ChainPlan plan_;
  Array phases_;
};

}  // namespace gpk::ops
