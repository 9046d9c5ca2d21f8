// A model's decode steps as one launch of all layers.
#pragma once

#include <cstdint>
#include <memory>

#include "llm/kv_pages.h"
#include "llm/model.h"
#include "llm/rope_table.h"
#include "ops/transformer/decode_layers.h"

namespace gpk::llm {

// nullptr where the model has steps that this launch has not, or the GPU cannot run it.
std::unique_ptr<ops::DecodeLayers> make_decode_layers(const Model& model, const KvPages& pages,
                                                      const RopeTable& rope,
                                                      std::int64_t max_length);

}  // namespace gpk::llm
