#include "llm/engine_passes.h"

#include <algorithm>

#include "core/context.h"
#include "core/view.h"

namespace gpk::llm {
namespace {

class ModelPasses final : public EnginePasses {
 public:
  ModelPasses(std::shared_ptr<Runner> runner, std::int64_t max_rows, bool use_graph)
      : runner_(std::move(runner)), max_rows_(max_rows), decoder_(runner_, {max_rows, use_graph}) {}

  [[nodiscard]] EngineLimits limits() const override {
    const RunnerOptions& o = runner_->options();
    return {runner_->model().config().vocab_size, o.max_length, o.max_tokens,
            std::min(o.max_sequences, max_rows_), max_rows_,    runner_->border()};
  }
  [[nodiscard]] Device device() const override { return runner_->model().device(); }

  std::vector<std::int32_t> prefill(std::span<const Runner::Chunk> chunks,
                                    std::span<const DecodeRow> rows) override {
    const Array logits = runner_->forward(chunks);
    if (rows.empty()) return {};
    const auto count = static_cast<std::int64_t>(rows.size());
    const auto tokens = decoder_.sample(slice_axis(logits, 0, 0, count, 1), rows);
    return {tokens.begin(), tokens.end()};
  }
  void decode(std::span<const DecodeRow> rows) override { decoder_.launch(rows); }
  void decode_again() override { decoder_.launch(); }
  std::span<const std::int32_t> tokens(std::int64_t back) override { return decoder_.tokens(back); }
  std::vector<TokenScore> scores() override { return decoder_.scores(); }

 private:
  std::shared_ptr<Runner> runner_;
  std::int64_t max_rows_;
  Decoder decoder_;
};

}  // namespace

std::unique_ptr<EnginePasses> make_engine_passes(std::shared_ptr<Runner> runner,
                                                 std::int64_t max_rows, bool use_graph) {
  auto passes = std::make_unique<ModelPasses>(std::move(runner), max_rows, use_graph);
  const Device device = passes->device();
  if (device.is_cuda()) Context::get(device.index).synchronize();
  return passes;
}

}  // namespace gpk::llm
