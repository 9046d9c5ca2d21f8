#include "llm/cross_cache.h"

#include "base/ceil_div.h"
#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "llm/forward.h"
#include "ops/elementwise/copy.h"

namespace gpk::llm {
namespace {

constexpr char kOp[] = "cross_cache";

std::int64_t blocks_of(const Model& model, std::int64_t page) {
  if (!model.spec().has_cross())
    throw InvalidArgument(cat(kOp, ": ", model.spec().name, " has no cross attention"));
  return ceil_div(model.config().source_positions, page);
}

}  // namespace

CrossCache::CrossCache(std::shared_ptr<const Model> model, std::int64_t num_sources,
                       std::int64_t page)
    : model_(std::move(model)), blocks_(blocks_of(*model_, page)) {
  pages_ = std::make_shared<KvPages>(model_->config(), model_->dtype(), model_->device(),
                                     num_sources * blocks_, page);
}

std::int64_t CrossCache::max_length() const { return model_->config().source_positions; }

std::vector<Sequence> CrossCache::add(const Array& states) {
  const ModelConfig& config = model_->config();
  const bool fits = states.ndim() == 3 && states.shape()[1] >= 1 &&
                    states.shape()[1] <= max_length() && states.shape()[2] == config.hidden_size;
  if (!fits)
    throw InvalidArgument(cat(kOp, ": states has shape ", to_string(states.shape()),
                              ", expected (sources, 1 to ", max_length(), ", ", config.hidden_size,
                              ")"));
  if (states.dtype() != model_->dtype())
    throw InvalidArgument(Error::Kind::kType,
                          cat(kOp, ": states has dtype ", name(states.dtype()), ", expected ",
                              name(model_->dtype()), ", the model's"));
  if (states.device() != model_->device())
    throw InvalidArgument(cat(kOp, ": states is on ", to_string(states.device()), ", the model on ",
                              to_string(model_->device())));
  const std::int64_t count = states.shape()[0];
  const std::int64_t rows = states.shape()[1];
  std::vector<Sequence> sources;
  std::vector<std::int32_t> slots;
  for (std::int64_t i = 0; i < count; ++i) {
    Sequence& source = sources.emplace_back(pages_, max_length());
    source.reserve(rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t page = source.table()[static_cast<std::size_t>(r / pages_->page())];
      slots.push_back(static_cast<std::int32_t>(page * pages_->page() + r % pages_->page()));
    }
    source.advance(rows);
  }
  if (count == 0) return sources;
  PassInput input;
  input.num_tokens = count * rows;
  input.slots = device::from_host(slots.data(), {count * rows}, DType::kInt32, model_->device());
  PassState state{*model_};
  state.cross = this;
  const auto slot = [&](Slot which) -> std::optional<Array>& {
    return state.slots[static_cast<std::size_t>(which)];
  };
  slot(Slot::kSource) =
      *try_reshape(ops::contiguous(states, kOp), {count * rows, config.hidden_size});
  slot(Slot::kCrossKv) =
      Array::empty({count * rows, 2 * config.kv_size()}, model_->dtype(), model_->device(), kOp);
  run_steps(model_->source_plan().steps, input, state);
  return sources;
}

}  // namespace gpk::llm
