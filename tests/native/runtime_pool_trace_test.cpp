// Fragmentation on the allocations of a transformer that serves requests of changing length.
#include <gtest/gtest.h>

#include <random>

#include "runtime/pool/pool.h"
#include "runtime_pool_fake.h"

namespace gpk::runtime {
namespace {

using fake::PoolFake;

struct Model {
  std::size_t num_layers;
  std::size_t hidden;
  std::size_t ffn;
  std::size_t num_heads;
  std::size_t num_kv_heads;
  std::size_t head_dim;
  std::size_t vocab;
};
// Llama 3.2 1B, Qwen3 0.6B, Qwen3 8B.
constexpr Model kLlama1b{16, 2048, 8192, 32, 8, 64, 128256};
constexpr Model kQwen06b{28, 1024, 3072, 16, 8, 128, 151936};
constexpr Model kQwen8b{36, 4096, 12288, 32, 8, 128, 151936};
constexpr std::size_t kHalf = 2;  // bytes of an element

// Runs the layers as an eager framework does: one allocation per result, freed after its last use.
class Replay {
 public:
  Replay(Pool& pool, const Model& model) : pool_(pool), model_(model) {}
  ~Replay() {
    for (PoolBlock* block : weights_) drop(block);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  void load_weights() {
    const Model& m = model_;
    const auto add = [this](std::size_t elems) { weights_.push_back(make(elems)); };
    add(m.vocab * m.hidden);
    for (std::size_t i = 0; i < m.num_layers; ++i) {
      add(m.hidden * m.num_heads * m.head_dim);
      add(m.hidden * m.num_kv_heads * m.head_dim);
      add(m.hidden * m.num_kv_heads * m.head_dim);
      add(m.num_heads * m.head_dim * m.hidden);
      for (int k = 0; k < 3; ++k) add(m.hidden * m.ffn);
      add(m.hidden);
      add(m.hidden);
    }
  }

  // One batch from prompt to end; caches grow with the sequence, `grow_by` tokens at a time.
  void serve(std::size_t batch, std::size_t prompt, std::size_t num_new, std::size_t grow_by) {
    Cache cache;
    for (std::size_t length = prompt; length <= prompt + num_new; ++length) {
      grow(cache, batch, length, grow_by);
      step(batch, length == prompt ? batch * prompt : batch, length);
    }
    clear(cache);
  }

  // Sequences come and go one by one, each with its own caches.
  void serve_mixed(std::size_t num_sequences, std::size_t num_steps, std::size_t grow_by,
                   std::minstd_rand& random) {
    struct Sequence {
      Cache cache;
      std::size_t length = 0;
      std::size_t end = 0;
    };
    std::vector<Sequence> sequences(num_sequences);
    for (std::size_t i = 0; i < num_steps; ++i) {
      std::size_t longest = 0;
      for (Sequence& sequence : sequences) {
        if (sequence.length == sequence.end) {
          clear(sequence.cache);
          sequence.length = 30 + random() % 1000;
          sequence.end = sequence.length + 10 + random() % 200;
          grow(sequence.cache, 1, sequence.length, grow_by);
          step(1, sequence.length, sequence.length);
        }
        grow(sequence.cache, 1, ++sequence.length, grow_by);
        longest = std::max(longest, sequence.length);
      }
      step(num_sequences, num_sequences, longest);
    }
    for (Sequence& sequence : sequences) clear(sequence.cache);
  }

  [[nodiscard]] std::size_t peak_bytes() const { return peak_; }
  [[nodiscard]] std::size_t num_allocations() const { return num_; }

 private:
  struct Cache {
    std::vector<PoolBlock*> blocks;
    std::size_t capacity = 0;
  };
  // Keys and values of each layer move to larger memory.
  void grow(Cache& cache, std::size_t batch, std::size_t length, std::size_t grow_by) {
    if (length <= cache.capacity) return;
    cache.capacity = (length + grow_by - 1) / grow_by * grow_by;
    cache.blocks.resize(2 * model_.num_layers, nullptr);
    for (PoolBlock*& block : cache.blocks) {
      PoolBlock* larger = make(batch * model_.num_kv_heads * cache.capacity * model_.head_dim);
      if (block != nullptr) drop(block);
      block = larger;
    }
  }
  void clear(Cache& cache) {
    for (PoolBlock* block : cache.blocks) drop(block);
    cache = {};
  }
  PoolBlock* make(std::size_t elems) {
    PoolBlock* block = pool_.allocate(elems * kHalf, 1);
    asked_[block] = elems * kHalf;
    used_ += elems * kHalf;
    peak_ = std::max(peak_, used_);
    ++num_;
    return block;
  }
  void drop(PoolBlock* block) {
    used_ -= asked_[block];
    asked_.erase(block);
    pool_.free(block);
  }
  void drop_all(std::initializer_list<PoolBlock*> blocks) {
    for (PoolBlock* block : blocks) drop(block);
  }

  void step(std::size_t batch, std::size_t rows, std::size_t length) {
    const Model& m = model_;
    PoolBlock* x = make(rows * m.hidden);
    for (std::size_t i = 0; i < m.num_layers; ++i) {
      PoolBlock* normed = make(rows * m.hidden);
      PoolBlock* q = make(rows * m.num_heads * m.head_dim);
      PoolBlock* k = make(rows * m.num_kv_heads * m.head_dim);
      PoolBlock* v = make(rows * m.num_kv_heads * m.head_dim);
      drop(normed);
      PoolBlock* rotated_q = make(rows * m.num_heads * m.head_dim);
      PoolBlock* rotated_k = make(rows * m.num_kv_heads * m.head_dim);
      drop_all({q, k});
      // Attention in blocks of 128 rows.
      PoolBlock* scores = make(batch * m.num_heads * std::min<std::size_t>(rows, 128) * length);
      PoolBlock* mixed = make(rows * m.num_heads * m.head_dim);
      drop_all({scores, rotated_q, rotated_k, v});
      PoolBlock* out = make(rows * m.hidden);
      drop(mixed);
      PoolBlock* sum = make(rows * m.hidden);
      drop_all({out, x});
      PoolBlock* second = make(rows * m.hidden);
      PoolBlock* gate = make(rows * m.ffn);
      PoolBlock* up = make(rows * m.ffn);
      drop(second);
      PoolBlock* act = make(rows * m.ffn);
      drop_all({gate, up});
      PoolBlock* down = make(rows * m.hidden);
      drop(act);
      x = make(rows * m.hidden);
      drop_all({down, sum});
    }
    PoolBlock* logits = make(batch * m.vocab);
    drop_all({x, logits});
  }

  Pool& pool_;
  const Model model_;
  std::map<PoolBlock*, std::size_t> asked_;
  std::vector<PoolBlock*> weights_;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  std::size_t num_ = 0;
};

struct Case {
  const char* name;
  Model model;
  std::size_t max_batch;
  std::size_t grow_by;
};

class PoolTrace : public ::testing::TestWithParam<Case> {
 protected:
  PoolTrace() {
    device.has_bytes = false;
    device.fast_streams = true;
  }
  // Memory held relative to memory requested, both at their peak.
  void check(const Pool& pool, const Replay& replay) const {
    const auto asked = static_cast<double>(replay.peak_bytes());
    const auto held = static_cast<double>(pool.stats().peak_reserved_bytes);
    RecordProperty("num_allocations", static_cast<int>(replay.num_allocations()));
    RecordProperty("asked_mib", static_cast<int>(asked / 1048576));
    RecordProperty("reserved_mib", static_cast<int>(held / 1048576));
    RecordProperty("fragmentation_percent", std::to_string(100 * (1 - asked / held)));
    EXPECT_LE(1 - asked / held, 0.08);
    EXPECT_TRUE(device.errors.empty());
  }
  PoolFake device;
};

TEST_P(PoolTrace, BatchesOfGrowingSequences) {
  const Case& it = GetParam();
  Pool pool(device, {});
  Replay replay(pool, it.model);
  replay.load_weights();
  std::minstd_rand random(3);
  for (int request = 0; request < 12; ++request) {
    const std::size_t batch = 1 + random() % it.max_batch;
    const std::size_t prompt = 50 + random() % 1500;
    replay.serve(batch, prompt, 20 + random() % 60, it.grow_by);
  }
  check(pool, replay);
}

TEST_P(PoolTrace, SequencesThatComeAndGo) {
  const Case& it = GetParam();
  Pool pool(device, {});
  Replay replay(pool, it.model);
  replay.load_weights();
  std::minstd_rand random(4);
  replay.serve_mixed(2 * it.max_batch, 60, it.grow_by, random);
  check(pool, replay);
}

// No slack: the same work within 8 % more than its peak demand.
TEST_P(PoolTrace, UnderATightQuota) {
  const Case& it = GetParam();
  std::size_t asked = 0;
  for (const bool tight : {false, true}) {
    PoolOptions options;
    if (tight) options.quota_bytes = asked / 100 * 108;
    Pool pool(device, options);
    Replay replay(pool, it.model);
    replay.load_weights();
    std::minstd_rand random(5);
    ASSERT_NO_THROW(replay.serve_mixed(it.max_batch, 30, it.grow_by, random));
    asked = replay.peak_bytes();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, PoolTrace,
                         ::testing::Values(Case{"Llama1B", kLlama1b, 8, 64},
                                           Case{"Qwen06B", kQwen06b, 16, 1},
                                           Case{"Qwen8B", kQwen8b, 4, 128}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace gpk::runtime
