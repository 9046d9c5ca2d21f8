// Spectrograms to states, by a Whisper's encoder.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "llm/model.h"
#include "llm/slot_memory.h"

namespace gpk::speech {

class WhisperEncoder {
 public:
  explicit WhisperEncoder(std::shared_ptr<const llm::Model> model);

  [[nodiscard]] std::int64_t num_frames() const;  // of a spectrogram; states have half as many rows

  // States [batch, frames / 2, hidden_size] of mel [batch, num_mels, frames], in the model's dtype.
  // Fewer frames than num_frames() give fewer rows. Throws InvalidArgument for another shape, dtype
  // or device.
  Array encode(const Array& mel);

 private:
  struct Rows {
    Array positions;  // int32 [batch * rows]: 0, 1, ... of each
    Array activations;
  };
  const Rows& rows_for(std::int64_t batch, std::int64_t rows);

  std::shared_ptr<const llm::Model> model_;
  llm::SlotMemory memory_;
  std::optional<std::pair<std::int64_t, std::int64_t>> shape_;  // batch and rows of rows_
  std::optional<Rows> rows_;
};

}  // namespace gpk::speech
