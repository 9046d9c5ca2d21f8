// What the kernels of kernels/recurrent take. Strides are in elements.
#pragma once

namespace gpk::kernels {

// PyTorch's order of gates: LSTM i, f, g, o; GRU r, z, n.
enum class RecurrentCell : int { kLstm, kGru };

inline constexpr int kRecurrentUnits = 8;      // hidden units of a block, a warp each
inline constexpr int kRecurrentMaxBatch = 32;  // samples of a launch, a lane each
inline constexpr int kRecurrentMaxDirections = 2;

struct RecurrentArgs {
  const void* gates[kRecurrentMaxDirections];  // input part: [batch, steps, gates * hidden]
  const void* w[kRecurrentMaxDirections];      // [gates * hidden, hidden]
  const void* bias[kRecurrentMaxDirections];   // of the hidden part; nullptr: 0
  const void* h0;                              // [directions, batch, hidden]; nullptr: 0
  const void* c0;                              // LSTM
  void* out;                                   // [batch, steps, directions * hidden]
  void* h_n;                                   // [directions, batch, hidden]
  void* c_n;                                   // LSTM
  unsigned long long* exchange;                // [2, directions, batch, hidden], zeros at first
  float* cells;  // LSTM, between launches: [directions, batch, hidden]
  long long out_batch, out_step;
  int batch, steps, hidden;
  int directions;
  int first_batch, num_batch;
  int first_step, num_steps;
  int reversed;  // bit d: direction d goes from the last step to the first
  int pitch;     // of a sample's hidden state in shared memory
};
static_assert(sizeof(RecurrentArgs) == 160 && __is_trivially_copyable(RecurrentArgs));

// --- selective scan -----------------------------------------------------------------------------

inline constexpr int kScanThreads = 128;

struct SelectiveScanArgs {
  const void* x;       // [batch, channels, length]
  const void* delta;   // as x
  const float* a;      // [channels, states]
  const void* b;       // [batch, states, length]
  const void* c;       // as b
  const float* d;      // [channels]; nullptr: 0
  const void* z;       // as x; nullptr: no gate
  const float* bias;   // of delta, [channels]; nullptr: 0
  const float* state;  // [batch, channels, states]; nullptr: 0
  float* state_out;
  void* out;      // as x
  float* decays;  // [batch, chunks, channels, states], scratch; nullptr: one chunk
  float* states;  // the same
  int batch, channels, length, states_per_channel;
  int chunk;  // steps of one
  int chunks;
  int softplus;  // of delta
  int unused;
};
static_assert(sizeof(SelectiveScanArgs) == 136 && __is_trivially_copyable(SelectiveScanArgs));

}  // namespace gpk::kernels
