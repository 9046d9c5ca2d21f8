#include "ops/matmul/product.h"

#include <utility>

#include "core/context.h"
#include "core/view.h"
#include "ops/cpu_backend.h"
#include "ops/elementwise/copy.h"
#include "ops/matmul/explain.h"
#include "ops/matmul/plan_cache.h"

namespace gpk::ops {
namespace {

thread_local std::vector<Product>* t_recorder = nullptr;

void run_reference(const Product& product) {
  if (product.epilogue.nothing() && !product.conjugate) {
    run_on_cpu({"matmul", {product.a, product.b}, {product.c}});
    return;
  }
  const Epilogue& e = product.epilogue;
  const auto given = [](const std::optional<Array>& array) -> CpuArg {
    if (array) return *array;
    return std::monostate{};
  };
  run_on_cpu({"product",
              {product.a, product.b},
              {product.c},
              {{"conjugate", Scalar{product.conjugate}},
               {"alpha", Scalar{static_cast<double>(e.alpha)}},
               {"beta", Scalar{static_cast<double>(e.beta)}},
               {"scale_a", given(e.scale_a)},
               {"scale_b", given(e.scale_b)},
               {"bias", given(e.bias)},
               {"activation", std::string(name(e.activation))},
               {"residual", given(e.residual)}}});
}

void run_on_gpu(const Product& product, const char* op);

// Everything contiguous: then all batches are one.
void run_copies(const Product& product, const char* op) {
  Product copies = product;
  copies.a = copy_as(product.a, product.a.dtype(), op);
  copies.b = copy_as(product.b, product.b.dtype(), op);
  copies.c = Array::empty(product.c.shape(), product.c.dtype(), product.c.device(), op);
  if (product.epilogue.residual)
    copies.epilogue.residual =
        copy_as(*product.epilogue.residual, product.epilogue.residual->dtype(), op);
  run_on_gpu(copies, op);
  copy_into(product.c, copies.c, op);
}

void run_residual_copy(const Product& product, const char* op) {
  Product copies = product;
  copies.epilogue.residual =
      copy_as(*product.epilogue.residual, product.epilogue.residual->dtype(), op);
  run_on_gpu(copies, op);
}

// Along the first dimension.
void run_one_by_one(const Product& product, const char* op) {
  const auto part = [](const Array& x, std::int64_t index) {
    return Array(Dims(x.shape().span().subspan(1)), Dims(x.strides().span().subspan(1)), x.dtype(),
                 x.buffer(), x.offset_elems() + index * x.strides()[0]);
  };
  const int rank = product.c.ndim();
  for (std::int64_t i = 0; i < product.c.shape()[0]; ++i) {
    Product one = product;
    one.a = part(product.a, i);
    one.b = part(product.b, i);
    one.c = part(product.c, i);
    Epilogue& e = one.epilogue;
    if (e.residual) e.residual = part(*e.residual, i);
    for (auto* scale : {&e.scale_a, &e.scale_b})
      if (*scale && (*scale)->size() > 1 && (*scale)->ndim() == rank - 1) *scale = part(**scale, i);
    run_on_gpu(one, op);
  }
}

void run_on_gpu(const Product& product, const char* op) {
  const auto found = planned(product, Context::get(product.c.device().index));
  switch (found->fit) {
    case DescFit::kFits: launch_plan(product, found->desc, found->plan, op); break;
    case DescFit::kManyBatches: run_copies(product, op); break;
    case DescFit::kResidual: run_residual_copy(product, op); break;
    case DescFit::kScales: run_one_by_one(product, op); break;
  }
}

}  // namespace

ProductRecorder::ProductRecorder(std::vector<Product>& into)
    : previous_(std::exchange(t_recorder, &into)) {}
ProductRecorder::~ProductRecorder() { t_recorder = previous_; }

void run_product(const Product& product, const char* op) {
  if (t_recorder != nullptr) [[unlikely]] {
    t_recorder->push_back(product);
    return;
  }
  if (product.c.device().is_cuda()) {
    run_on_gpu(product, op);
  } else {
    run_reference(product);
  }
}

std::array<const Array*, 8> arrays_of(const Product& product, const Array* workspace) {
  const Epilogue& e = product.epilogue;
  const auto given = [](const std::optional<Array>& array) { return array ? &*array : nullptr; };
  return {&product.a,       &product.b,       &product.c,    workspace,
          given(e.scale_a), given(e.scale_b), given(e.bias), given(e.residual)};
}

}  // namespace gpk::ops
