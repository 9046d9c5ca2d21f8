#include "llm/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "expect.h"
#include "llm_engine_fake.h"

namespace gpk::llm {
namespace {

using Tokens = std::vector<std::int32_t>;
using runtime::QosClass;

constexpr EngineLimits kLimits{1000, 256, 48, 4, 4};

struct Result {
  Tokens tokens;
  std::vector<TokenScore> scores;
  std::optional<FinishReason> end;
  std::string error;
};

class LlmEngine : public testing::Test {
 protected:
  void make(std::int64_t num_pages, EngineOptions options = {}, EngineLimits limits = kLimits) {
    engine_.reset();
    pages_ = fake_pages(num_pages);
    auto passes = std::make_unique<FakePasses>(pages_, limits);
    passes_ = passes.get();
    engine_ = std::make_unique<Engine>(std::move(passes), pages_, options, clock_);
  }

  void collect(std::int64_t timeout_ns = 0) {
    for (const RequestEvent& event : engine_->wait_events(timeout_ns)) {
      Result& result = results_[event.id];
      EXPECT_FALSE(result.end) << "an event after the end of request " << event.id;
      result.tokens.insert(result.tokens.end(), event.tokens.begin(), event.tokens.end());
      result.scores.insert(result.scores.end(), event.scores.begin(), event.scores.end());
      result.end = event.end;
      result.error = event.error;
    }
  }
  bool step() {
    const bool busy = engine_->step();
    collect();
    return busy;
  }
  void finish() {
    for (int i = 0; step(); ++i) ASSERT_LT(i, 100000);
  }
  // Only the prefix cache holds pages.
  void expect_nothing_held() {
    const EngineMetrics m = engine_->metrics();
    EXPECT_EQ(m.free_pages + m.idle_pages, m.pages);
    EXPECT_EQ(m.idle_pages, m.cached_pages);
    EXPECT_EQ(m.host_pages_used, 0);
    EXPECT_EQ(m.waiting + m.prefilling + m.running + m.swapped, 0);
    EXPECT_EQ(m.submitted, m.finished + m.cancelled + m.failed);
    EXPECT_FALSE(passes_->single_tokens_mix);
  }

  FakeCopies copies_;
  ManualClock clock_;
  std::shared_ptr<KvPages> pages_;
  std::unique_ptr<Engine> engine_;
  FakePasses* passes_ = nullptr;
  std::map<std::uint64_t, Result> results_;
};

Tokens prompt_of(std::size_t size, std::int32_t first = 1) {
  Tokens prompt(size);
  for (std::size_t i = 0; i < size; ++i)
    prompt[i] = static_cast<std::int32_t>((static_cast<std::size_t>(first) + i * 7) % 1000);
  return prompt;
}
RequestOptions request_of(Tokens prompt, std::int64_t count) {
  RequestOptions options;
  options.prompt = std::move(prompt);
  options.max_new_tokens = count;
  return options;
}

TEST_F(LlmEngine, OneRequest) {
  make(32);
  const auto id = engine_->submit(request_of(prompt_of(20), 30));
  finish();
  EXPECT_EQ(results_[id].tokens, fake_text(prompt_of(20), 30));
  EXPECT_EQ(results_[id].end, FinishReason::kLength);
  EXPECT_GT(passes_->num_ahead, 20);  // the device was kept busy
  expect_nothing_held();
}

TEST_F(LlmEngine, APromptOfOneToken) {
  make(32);
  const auto one = engine_->submit(request_of({5}, 4));
  const auto two = engine_->submit(request_of(prompt_of(9), 1));
  finish();
  EXPECT_EQ(results_[one].tokens, fake_text({5}, 4));
  EXPECT_EQ(results_[two].tokens, fake_text(prompt_of(9), 1));
  expect_nothing_held();
}

TEST_F(LlmEngine, StopTokens) {
  make(32);
  const Tokens text = fake_text(prompt_of(8), 20);
  RequestOptions options = request_of(prompt_of(8), 20);
  options.stop_tokens = {text[6]};
  const auto id = engine_->submit(options);
  finish();
  const auto end = std::find(text.begin(), text.end(), text[6]) + 1;
  EXPECT_EQ(results_[id].tokens, Tokens(text.begin(), end));
  EXPECT_EQ(results_[id].end, FinishReason::kStop);
  expect_nothing_held();
}

// Random lengths, priorities, seeds, shared beginnings, cancels; pages for a part of them only.
TEST_F(LlmEngine, ManyRequestsGetWhatTheyGetAlone) {
  for (unsigned seed = 0; seed < rounds(4); ++seed) {
    std::mt19937 random(seed);
    results_.clear();
    EngineOptions options;
    options.host_pages = 200;
    options.aging_ns = 1000;
    make(14 + static_cast<std::int64_t>(random() % 16), options, {1000, 256, 48, 8, 8});
    std::map<std::uint64_t, RequestOptions> requests;
    std::vector<std::uint64_t> cancelled;
    while (requests.size() < 256) {
      for (unsigned i = random() % 4; i > 0; --i) {
        RequestOptions o =
            request_of(prompt_of(random() % 120 + 1, random() % 3), random() % 60 + 1);
        o.priority = static_cast<int>(random() % 3);
        o.qos = static_cast<QosClass>(random() % 3);
        if (random() % 2 == 0) o.sampling.temperature = 1.0;
        o.sampling.seed = static_cast<std::int64_t>(random() % 1000);
        const auto id = engine_->submit(o);
        requests.emplace(id, o);
        if (random() % 6 == 0 && engine_->cancel(id - random() % 8)) cancelled.push_back(id);
      }
      for (unsigned i = random() % 12; i > 0; --i) step();
      clock_.advance_ns(static_cast<std::int64_t>(random() % 5000));
    }
    finish();
    std::size_t num_cancelled = 0;
    for (const auto& [id, o] : requests) {
      const Result& got = results_[id];
      const Tokens alone = fake_text(o.prompt, o.max_new_tokens, o.sampling);
      ASSERT_TRUE(got.end);
      ASSERT_LE(got.tokens.size(), alone.size());
      EXPECT_TRUE(std::equal(got.tokens.begin(), got.tokens.end(), alone.begin())) << id;
      if (got.end == FinishReason::kCancelled) {
        ++num_cancelled;
      } else {
        EXPECT_EQ(got.tokens.size(), alone.size());
      }
    }
    EXPECT_LE(num_cancelled, cancelled.size());
    const EngineMetrics m = engine_->metrics();
    EXPECT_GT(m.preemptions, 0);
    EXPECT_GT(m.prefix_hit_tokens, 0);
    EXPECT_EQ(m.failed, 0);
    expect_nothing_held();
  }
}

TEST_F(LlmEngine, APrefixIsComputedOnce) {
  make(32);
  const auto first = engine_->submit(request_of(prompt_of(70), 4));
  finish();
  const std::int64_t before = engine_->metrics().prompt_tokens;
  const auto second = engine_->submit(request_of(prompt_of(70), 4));
  Tokens other = prompt_of(70);
  other[40] = 999;
  const auto third = engine_->submit(request_of(other, 4));
  finish();
  EXPECT_EQ(results_[first].tokens, results_[second].tokens);
  EXPECT_EQ(results_[third].tokens, fake_text(other, 4));
  EXPECT_EQ(before, 70);
  // 64 of full pages; 40, of which 8 are in a page that was copied before it was written.
  EXPECT_EQ(engine_->metrics().prompt_tokens - before, 6 + 30);
  EXPECT_EQ(engine_->metrics().prefix_hit_tokens, 64 + 40);
  expect_nothing_held();
}

TEST_F(LlmEngine, WithoutAPrefixCache) {
  EngineOptions options;
  options.prefix_cache = false;
  make(32, options);
  engine_->submit(request_of(prompt_of(70), 4));
  engine_->submit(request_of(prompt_of(70), 4));
  finish();
  EXPECT_EQ(engine_->metrics().prompt_tokens, 140);
  EXPECT_EQ(engine_->metrics().free_pages, 32);
}

TEST_F(LlmEngine, AHighPriorityIsServedNext) {
  EngineOptions options;
  options.host_pages = 100;
  make(16, options);
  for (int i = 0; i < 12; ++i) engine_->submit(request_of(prompt_of(40, i * 50), 60));
  for (int i = 0; i < 30; ++i) step();
  RequestOptions urgent = request_of(prompt_of(44, 500), 8);
  urgent.qos = QosClass::kGuaranteed;
  const auto id = engine_->submit(urgent);
  step();  // takes the tokens of the step in flight, then runs its prompt
  EXPECT_EQ(results_[id].tokens.size(), 1u);
  finish();
  EXPECT_EQ(results_[id].tokens, fake_text(urgent.prompt, 8));
  EXPECT_GT(engine_->metrics().preemptions, 0);
  EXPECT_EQ(engine_->metrics().preemptions, engine_->metrics().restores);
  expect_nothing_held();
}

// Somebody urgent who comes while another prompt is computed does not wait for a decode step.
TEST_F(LlmEngine, AHighPriorityIsSeenWithinAStep) {
  make(32);
  engine_->submit(request_of(prompt_of(20), 30));
  for (int i = 0; i < 5; ++i) step();
  std::uint64_t id = 0;
  passes_->on_prefill = [&] {
    if (id != 0) return;
    RequestOptions urgent = request_of(prompt_of(20, 500), 8);
    urgent.qos = QosClass::kGuaranteed;
    id = engine_->submit(urgent);
  };
  engine_->submit(request_of(prompt_of(20, 300), 30));
  passes_->log.clear();
  step();
  step();
  EXPECT_EQ(results_[id].tokens.size(), 1u);
  step();
  EXPECT_EQ(passes_->log, "ppd");
  finish();
  expect_nothing_held();
}

TEST_F(LlmEngine, NobodyStarves) {
  EngineOptions options;
  options.aging_ns = 1000;
  make(32, options, {1000, 256, 48, 1, 1});
  const auto low = engine_->submit(request_of(prompt_of(20), 5));
  int steps = 0;
  for (; !results_[low].end && steps < 1000; ++steps) {
    RequestOptions high = request_of(prompt_of(20, 100 + steps), 5);
    high.priority = 10;
    engine_->submit(high);
    for (int i = 0; i < 3; ++i) step();
    clock_.advance_ns(500);
  }
  EXPECT_GT(steps, 5);  // others were first
  EXPECT_LT(steps, 60);
  finish();
  expect_nothing_held();
}

TEST_F(LlmEngine, CancelFreesAtOnce) {
  make(32);
  const auto id = engine_->submit(request_of(prompt_of(40), 100));
  for (int i = 0; i < 10; ++i) step();
  EXPECT_TRUE(engine_->cancel(id));
  EXPECT_FALSE(step());
  EXPECT_EQ(results_[id].end, FinishReason::kCancelled);
  EXPECT_FALSE(engine_->cancel(id));
  EXPECT_FALSE(engine_->cancel(77));
  expect_nothing_held();
}

TEST_F(LlmEngine, Deadlines) {
  make(32);
  RequestOptions options = request_of(prompt_of(40), 100);
  options.timeout_ns = 1000;
  const auto id = engine_->submit(options);
  for (int i = 0; i < 10; ++i) step();
  EXPECT_FALSE(results_[id].end);
  clock_.advance_ns(1000);
  EXPECT_FALSE(step());
  EXPECT_EQ(results_[id].end, FinishReason::kDeadline);
  expect_nothing_held();
}

TEST_F(LlmEngine, TextsThatFitNowhereFail) {
  make(4);  // and no host memory
  const auto first = engine_->submit(request_of(prompt_of(17), 40));
  const auto second = engine_->submit(request_of(prompt_of(9, 100), 40));
  finish();
  EXPECT_EQ(results_[first].tokens, fake_text(prompt_of(17), 40));
  EXPECT_EQ(results_[second].end, FinishReason::kFailed);
  EXPECT_NE(results_[second].error.find("neither the cache nor host memory"), std::string::npos);
  expect_nothing_held();
}

TEST_F(LlmEngine, Masks) {
  make(32);
  RequestOptions options = request_of(prompt_of(9), 10);
  options.mask = [](std::int32_t token, std::span<std::uint32_t> bits) {
    if (token == 5) return false;
    bits[0] = token < 0 ? 1u << 3 : token == 3 ? 1u << 4 : 1u << 5;
    return true;
  };
  const auto id = engine_->submit(options);
  options.mask = [](std::int32_t token, std::span<std::uint32_t> bits) {
    if (token == 3) throw std::runtime_error("no grammar");
    bits[0] = 1u << 3;
    return true;
  };
  const auto thrown = engine_->submit(options);
  options.mask = [](std::int32_t, std::span<std::uint32_t>) { return true; };
  const auto empty = engine_->submit(options);
  finish();
  EXPECT_EQ(results_[id].tokens, (Tokens{3, 4, 5}));
  EXPECT_EQ(results_[id].end, FinishReason::kStop);
  EXPECT_EQ(results_[thrown].end, FinishReason::kFailed);
  EXPECT_EQ(results_[thrown].error, "no grammar");
  EXPECT_TRUE(results_[empty].tokens.empty());
  EXPECT_EQ(results_[empty].end, FinishReason::kStop);
  expect_nothing_held();
}

TEST_F(LlmEngine, Logprobs) {
  make(32);
  RequestOptions options = request_of(prompt_of(9), 10);
  engine_->submit(options);
  options.sampling.logprobs = 1;
  const auto id = engine_->submit(options);
  finish();
  const Result& result = results_[id];
  ASSERT_EQ(result.scores.size(), 10u);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(result.scores[i].logprob, -static_cast<float>(result.tokens[i]));
    EXPECT_EQ(result.scores[i].top.size(), 1u);  // as many as it asked for
  }
  EXPECT_TRUE(results_[id - 1].scores.empty());
}

TEST_F(LlmEngine, BadRequests) {
  make(8);
  const auto refused = [&](auto change, const char* words) {
    RequestOptions options = request_of(prompt_of(9), 10);
    change(options);
    std::string message;
    EXPECT_EQ(kind_of([&] { engine_->submit(options); }, &message), Error::Kind::kValue);
    EXPECT_NE(message.find(words), std::string::npos) << message;
  };
  refused([](auto& o) { o.prompt.clear(); }, "prompt has no tokens");
  refused([](auto& o) { o.prompt[3] = 1000; }, "token 1000, expected 0 to 999");
  refused([](auto& o) { o.max_new_tokens = 0; }, "max_new_tokens is 0");
  refused([](auto& o) { o.max_new_tokens = INT64_MAX; }, "at most 256 together");
  refused([](auto& o) { o.max_new_tokens = 200; }, "the cache has room for 128");
  refused([](auto& o) { o.sampling.temperature = -1; }, "temperature is -1");
  refused([](auto& o) { o.priority = 2'000'000; }, "priority is 2000000");
  refused([](auto& o) { o.timeout_ns = -1; }, "deadline");
  EngineOptions options;
  options.max_waiting = 1;
  make(8, options);
  engine_->submit(request_of(prompt_of(9), 10));
  EXPECT_EQ(kind_of([&] { engine_->submit(request_of(prompt_of(9), 10)); }), Error::Kind::kMemory);
  options.max_waiting = 0;
  EXPECT_EQ(kind_of([&] { make(8, options); }), Error::Kind::kValue);
}

TEST_F(LlmEngine, AnErrorOfTheDeviceEndsEverything) {
  make(32);
  const auto id = engine_->submit(request_of(prompt_of(9), 10));
  passes_->fails = true;
  EXPECT_FALSE(step());
  EXPECT_EQ(results_[id].end, FinishReason::kFailed);
  EXPECT_EQ(results_[id].error, "the device is lost");
  std::string message;
  EXPECT_EQ(kind_of([&] { engine_->submit(request_of({1}, 1)); }, &message), Error::Kind::kState);
  EXPECT_NE(message.find("the device is lost"), std::string::npos);
}

TEST_F(LlmEngine, CloseCancels) {
  make(32);
  const auto running = engine_->submit(request_of(prompt_of(9), 50));
  for (int i = 0; i < 5; ++i) step();
  const auto waiting = engine_->submit(request_of(prompt_of(9), 50));
  engine_->close();
  engine_->close();
  collect();
  EXPECT_EQ(results_[running].end, FinishReason::kCancelled);
  EXPECT_EQ(results_[waiting].end, FinishReason::kCancelled);
  EXPECT_TRUE(engine_->closed());
  EXPECT_FALSE(engine_->step());
  EXPECT_EQ(kind_of([&] { engine_->submit(request_of({1}, 1)); }), Error::Kind::kState);
  expect_nothing_held();
}

TEST_F(LlmEngine, Threads) {
  EngineOptions options;
  options.host_pages = 50;
  make(24, options);
  engine_->start();
  std::mutex mutex;
  std::map<std::uint64_t, RequestOptions> requests;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 32; ++i) {
        const RequestOptions o =
            request_of(prompt_of(random() % 60 + 1, random() % 5), random() % 30 + 1);
        const auto id = engine_->submit(o);
        if (random() % 8 == 0) engine_->cancel(id);
        const std::lock_guard lock(mutex);
        requests.emplace(id, o);
      }
    });
  for (auto& thread : threads) thread.join();
  const auto ended = [&] {
    return std::count_if(results_.begin(), results_.end(),
                         [](const auto& r) { return r.second.end.has_value(); });
  };
  while (ended() < 128) collect(1'000'000'000);
  engine_->close();
  for (const auto& [id, o] : requests) {
    const Tokens alone = fake_text(o.prompt, o.max_new_tokens);
    const Tokens& got = results_[id].tokens;
    EXPECT_TRUE(got.size() <= alone.size() && std::equal(got.begin(), got.end(), alone.begin()));
    if (results_[id].end == FinishReason::kLength) {
      EXPECT_EQ(got.size(), alone.size());
    }
  }
  expect_nothing_held();
}

}  // namespace
}  // namespace gpk::llm
