#include "speech/whisper_encoder.h"

#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/view.h"
#include "device/host_copy.h"
#include "llm/forward.h"

namespace gpk::speech {
namespace {

constexpr char kOp[] = "encode";

void check_mel(const Array& mel, const llm::Model& model) {
  const llm::ModelConfig& config = model.config();
  const std::int64_t most = 2 * config.source_positions;
  const bool fits = mel.ndim() == 3 && mel.shape()[0] >= 1 && mel.shape()[1] == config.num_mels &&
                    mel.shape()[2] >= 2 && mel.shape()[2] <= most && mel.shape()[2] % 2 == 0;
  if (!fits)
    throw InvalidArgument(cat(kOp, ": mel has shape ", to_string(mel.shape()),
                              ", expected (batch, ", config.num_mels,
                              ", frames), with an even number "
                              "of frames up to ",
                              most));
  if (mel.dtype() != model.dtype())
    throw InvalidArgument(Error::Kind::kType,
                          cat(kOp, ": mel has dtype ", name(mel.dtype()), ", expected ",
                              name(model.dtype()), ", the model's"));
  if (mel.device() != model.device())
    throw InvalidArgument(cat(kOp, ": mel is on ", to_string(mel.device()), ", the model on ",
                              to_string(model.device())));
}

}  // namespace

WhisperEncoder::WhisperEncoder(std::shared_ptr<const llm::Model> model)
    : model_(std::move(model)),
      memory_(llm::place_slots(model_->plan(), model_->spec(), model_->config())) {}

std::int64_t WhisperEncoder::num_frames() const { return 2 * model_->config().source_positions; }

const WhisperEncoder::Rows& WhisperEncoder::rows_for(std::int64_t batch, std::int64_t rows) {
  if (shape_ == std::pair(batch, rows)) return *rows_;
  std::vector<std::int32_t> positions;
  for (std::int64_t i = 0; i < batch; ++i)
    for (std::int64_t r = 0; r < rows; ++r) positions.push_back(static_cast<std::int32_t>(r));
  const std::int64_t count = batch * rows;
  rows_.reset();
  rows_ = Rows{device::from_host(positions.data(), {count}, DType::kInt32, model_->device()),
               Array::empty({count * memory_.width}, model_->dtype(), model_->device(), kOp)};
  shape_ = std::pair(batch, rows);
  return *rows_;
}

Array WhisperEncoder::encode(const Array& mel) {
  check_mel(mel, *model_);
  const std::int64_t batch = mel.shape()[0];
  const std::int64_t length = mel.shape()[2] / 2;
  const std::int64_t count = batch * length;
  const std::int64_t hidden = model_->config().hidden_size;
  const Rows& rows = rows_for(batch, length);
  const Array states =
      Array::empty({batch, length, hidden}, model_->dtype(), model_->device(), kOp);

  llm::PassInput input;
  input.num_tokens = count;
  input.num_sequences = batch;
  input.longest = length;
  input.positions = rows.positions;
  input.features = mel;
  llm::PassState state{*model_};
  for (int s = 1; s < llm::kNumSlots; ++s) {
    const auto slot = static_cast<llm::Slot>(s);
    const std::int64_t width = llm::slot_width(slot, model_->spec(), model_->config());
    if (width == 0) continue;
    auto& array = state.slots[static_cast<std::size_t>(s)];
    if (slot == llm::Slot::kSelected)
      array = *try_reshape(states, {count, hidden});
    else
      array = Array(
          {count, width}, {width, 1}, model_->dtype(), rows.activations.buffer(),
          rows.activations.offset_elems() + count * memory_.offset[static_cast<std::size_t>(s)]);
  }
  llm::run_steps(model_->plan().steps, input, state);
  return states;
}

}  // namespace gpk::speech
