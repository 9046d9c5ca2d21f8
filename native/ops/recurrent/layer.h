// LSTM and GRU layers.
#pragma once

#include <optional>
#include <vector>

#include "core/array.h"
#include "kernels/args/recurrent.h"

namespace gpk::ops {

using kernels::RecurrentCell;

// Gates in PyTorch's order; all of x's dtype.
struct RecurrentWeights {
  Array w_ih;                 // [gates * hidden, in]
  Array w_hh;                 // [gates * hidden, hidden]
  std::optional<Array> b_ih;  // [gates * hidden]
  std::optional<Array> b_hh;
};

struct RecurrentLayer {
  RecurrentCell cell = RecurrentCell::kLstm;
  std::vector<RecurrentWeights> directions;  // one, or forward and backward
  bool reverse = false;                      // of a single direction
};

// Without the axis of directions where there is one.
struct RecurrentResult {
  Array out;                 // [batch, steps, directions * hidden]
  Array h_n;                 // [directions, batch, hidden]
  std::optional<Array> c_n;  // LSTM
};

// x is [batch, steps, in] in float16, bfloat16 or float32; h0 and c0 are as h_n. Throws
// InvalidArgument.
RecurrentResult run_recurrent(const RecurrentLayer& layer, const Array& x,
                              const std::optional<Array>& h0, const std::optional<Array>& c0,
                              const std::optional<Array>& out, const char* op);

}  // namespace gpk::ops
