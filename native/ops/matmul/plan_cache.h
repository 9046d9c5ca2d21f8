// Plans of products seen before, so that the launch path plans nothing.
#pragma once

#include <memory>

#include "ops/matmul/plan.h"

namespace gpk::ops {

struct PlannedProduct {
  DescFit fit = DescFit::kFits;  // otherwise there is no plan
  MatmulDesc desc;
  MatmulPlan plan;
};

// The plan for `product` on `context`: from a small table of the calling thread
// where nothing is allocated, or made (decision.h) and remembered there.
std::shared_ptr<const PlannedProduct> planned(const Product& product, Context& context);

// Plans made so far are not used any more. After a measurement, or a change of the machine.
void forget_plans() noexcept;

}  // namespace gpk::ops
