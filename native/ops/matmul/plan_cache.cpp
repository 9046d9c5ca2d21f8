#include "ops/matmul/plan_cache.h"

#include <atomic>
#include <cstring>

#include "core/context.h"
#include "ops/matmul/decision.h"

namespace gpk::ops {
namespace {

std::atomic<std::uint64_t>& generation() {
  static std::atomic<std::uint64_t> count{1};
  return count;
}

// Everything a desc is made from, as plain words.
class ProductKey {
 public:
  static constexpr int kMaxWords = 56;

  // False where there is no room: a product of very many dimensions.
  bool set(const Product& product, const Context& context) {
    const Epilogue& e = product.epilogue;
    const int rank = product.c.ndim();
    if (rank > 6) return false;
    const auto bits = [](auto x) { return static_cast<std::uint64_t>(x); };
    add(bits(reinterpret_cast<std::uintptr_t>(&context)));
    add(bits(product.a.dtype()) | bits(product.b.dtype()) << 8 | bits(product.c.dtype()) << 16 |
        bits(rank) << 24 | bits(epilogue_flags(e)) << 32 | bits(product.conjugate) << 48 |
        bits(product.tf32) << 49 | bits(product.batch_invariant) << 50 |
        bits(product.fast_accum) << 51);
    add(low(product.a) | low(product.b) << 4 | low(product.c) << 8);
    for (int d = 0; d < rank; ++d) add(bits(product.c.shape()[d]));
    add(bits(product.a.shape()[rank - 1]));
    for (const Array* x : {&product.a, &product.b, &product.c}) add_strides(*x);
    for (const auto* x : {&e.scale_a, &e.scale_b, &e.bias, &e.residual}) {
      if (!*x) continue;
      if ((*x)->ndim() > 6) return false;
      add(bits((*x)->size()) << 16 | bits((*x)->ndim()) << 8 | low(**x));
      add_strides(**x);
    }
    return true;
  }

  [[nodiscard]] unsigned hash() const noexcept {
    std::uint64_t mixed = 0;
    for (int i = 0; i < count_; ++i) mixed = (mixed ^ words_[i]) * 0x9e3779b97f4a7c15u;
    return static_cast<unsigned>(mixed >> 40);
  }

  friend bool operator==(const ProductKey& x, const ProductKey& y) noexcept {
    return x.count_ == y.count_ &&
           std::memcmp(x.words_, y.words_,
                       static_cast<std::size_t>(x.count_) * sizeof(std::uint64_t)) == 0;
  }

 private:
  static std::uint64_t low(const Array& array) { return array.device_ptr() & 15u; }
  void add(std::uint64_t word) { words_[count_++] = word; }
  void add_strides(const Array& array) {
    for (int d = 0; d < array.ndim(); ++d) add(static_cast<std::uint64_t>(array.strides()[d]));
  }

  int count_ = 0;
  std::uint64_t words_[kMaxWords];  // NOLINT: only the first count_ are looked at
};

struct Slot {
  std::uint64_t generation = 0;
  ProductKey key;
  std::shared_ptr<const PlannedProduct> planned;
};
constexpr unsigned kNumSlots = 64;

Slot& thread_slot(unsigned hash) {
  thread_local const auto slots = std::make_unique<Slot[]>(kNumSlots);
  return slots[hash % kNumSlots];
}

std::shared_ptr<const PlannedProduct> make_planned(const Product& product, const Context& context) {
  auto result = std::make_shared<PlannedProduct>();
  result->desc = make_desc(product, &result->fit);
  if (result->fit != DescFit::kFits) return result;
  result->plan = decide_plan(result->desc, machine_of(context)).plan;
  return result;
}

}  // namespace

std::shared_ptr<const PlannedProduct> planned(const Product& product, Context& context) {
  ProductKey key;
  if (ForcedPlan::current() != nullptr || !key.set(product, context)) [[unlikely]]
    return make_planned(product, context);
  const std::uint64_t now = generation().load(std::memory_order_relaxed);
  Slot& slot = thread_slot(key.hash());
  if (slot.generation == now && slot.key == key) [[likely]]
    return slot.planned;
  slot.planned = make_planned(product, context);
  slot.key = key;
  slot.generation = now;
  return slot.planned;
}

void forget_plans() noexcept { generation().fetch_add(1, std::memory_order_relaxed); }

}  // namespace gpk::ops
