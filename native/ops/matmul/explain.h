// How a product is planned, for people and as data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ops/matmul/decision.h"

namespace gpk::ops {

// While one lives, products of the calling thread are put into `into` instead of being run. What
// the front doors return meanwhile is not initialised.
class ProductRecorder {
 public:
  explicit ProductRecorder(std::vector<Product>& into);
  ~ProductRecorder();
  ProductRecorder(const ProductRecorder&) = delete;
  ProductRecorder& operator=(const ProductRecorder&) = delete;

 private:
  std::vector<Product>* previous_;
};

struct MatmulExplanation {
  DescFit fit = DescFit::kFits;  // otherwise there is no plan for the whole
  MatmulDesc desc;
  PlanDecision decision;
  std::string text;
};

// For the product's GPU, or for `machine` (as if it were there). Products on the CPU need one.
MatmulExplanation explain_product(const Product& product, const std::optional<Machine>& machine);

}  // namespace gpk::ops
