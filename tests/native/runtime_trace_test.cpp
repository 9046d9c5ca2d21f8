#include "base/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/trace_json.h"

namespace gpk::runtime {
namespace {

using Category = TraceCategory;

Json trace_of(const TraceRecorder& recorder) {
  std::ostringstream out;
  recorder.write_chrome_trace(out);
  return parse_json(out.str(), "trace");
}

std::vector<const Json*> events_of(const Json& trace, const std::string& phase) {
  std::vector<const Json*> found;
  for (const Json& event : *trace.find("traceEvents")->items())
    if (*event.find("ph")->string() == phase) found.push_back(&event);
  return found;
}

TEST(RuntimeTrace, OffRecordsNothing) {
  ManualClock clock;
  TraceRecorder recorder(clock);
  recorder.span(Category::kKernel, "gemm", 1, 0, 10);
  recorder.counter("used", 0, 1.0);
  {
    const TraceScope scope(recorder, Category::kTask, "task", 1);
  }
  EXPECT_EQ(recorder.num_events(), 0u);
  const Json trace = trace_of(recorder);
  EXPECT_EQ(trace.find("traceEvents")->items()->size(), 2u);  // the names
}

TEST(RuntimeTrace, ShapeOfTheFile) {
  ManualClock clock;
  TraceRecorder recorder(clock);
  recorder.start();
  const auto copies = recorder.track("H2D");
  EXPECT_EQ(recorder.track("GPU"), 1u);
  EXPECT_EQ(recorder.track("H2D"), copies);
  recorder.span(Category::kKernel, "gemm", 1, 5'000, 1'234, {"flops", 2e9}, {"bytes", 3.5});
  recorder.span(Category::kCopy, "h2d", copies, 1'000, 2'000);
  recorder.instant(Category::kMemory, "snapshot", 2, 6'000, {"used", 7});
  recorder.counter("memory", 7'500, 4096.0);
  clock.set_ns(9'000);
  {
    const TraceScope scope(recorder, Category::kEviction, "evict", 1);
    clock.advance_ns(500);
  }
  recorder.stop();
  recorder.instant(Category::kTask, "late", 1, 10);
  EXPECT_EQ(recorder.num_events(), 5u);

  const Json trace = trace_of(recorder);
  const auto names = events_of(trace, "M");
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(*names[0]->find("name")->string(), "process_name");
  EXPECT_EQ(*names[0]->find("args")->find("name")->string(), "PyGPUkit");
  EXPECT_EQ(*names[1]->find("name")->string(), "thread_name");
  EXPECT_EQ(*names[1]->find("args")->find("name")->string(), "GPU");
  EXPECT_EQ(names[2]->find("tid")->integer().value(), copies);
  const auto spans = events_of(trace, "X");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(*spans[0]->find("cat")->string(), "copy");  // by start time
  EXPECT_EQ(*spans[1]->find("cat")->string(), "kernel");
  EXPECT_EQ(*spans[1]->find("name")->string(), "gemm");
  EXPECT_DOUBLE_EQ(spans[1]->find("ts")->number().value(), 4.0);  // microseconds since the earliest
  EXPECT_DOUBLE_EQ(spans[1]->find("dur")->number().value(), 1.234);
  EXPECT_DOUBLE_EQ(spans[1]->find("args")->find("flops")->number().value(), 2e9);
  EXPECT_DOUBLE_EQ(spans[1]->find("args")->find("bytes")->number().value(), 3.5);
  EXPECT_DOUBLE_EQ(spans[2]->find("dur")->number().value(), 0.5);
  const auto moments = events_of(trace, "i");
  ASSERT_EQ(moments.size(), 1u);
  EXPECT_EQ(*moments[0]->find("cat")->string(), "memory");
  EXPECT_EQ(moments[0]->find("tid")->integer().value(), 2);
  EXPECT_EQ(*moments[0]->find("s")->string(), "t");
  const auto counters = events_of(trace, "C");
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_EQ(counters[0]->find("args")->find("value")->integer().value(), 4096);
}

TEST(RuntimeTrace, KeepsTheNewest) {
  ManualClock clock;
  TraceRecorder::Options options;
  options.max_events = 10;
  TraceRecorder recorder(clock, options);
  recorder.start();
  for (int i = 0; i < 25; ++i) recorder.instant(Category::kTask, std::to_string(i), 1, i * 1000);
  EXPECT_EQ(recorder.num_events(), 10u);
  EXPECT_EQ(recorder.num_dropped(), 15u);
  const Json trace = trace_of(recorder);
  const auto moments = events_of(trace, "i");
  ASSERT_EQ(moments.size(), 10u);
  EXPECT_EQ(*moments.front()->find("name")->string(), "15");
  EXPECT_EQ(*moments.back()->find("name")->string(), "24");
  recorder.clear();
  EXPECT_EQ(recorder.num_events() + recorder.num_dropped(), 0u);
  options.max_events = 0;
  EXPECT_THROW(TraceRecorder(clock, options), Error);
}

TEST(RuntimeTrace, AnyTextAndNumberIsValidJson) {
  ManualClock clock;
  TraceRecorder::Options options;
  options.process_name = "say \"hi\"\\\x01\xff";
  TraceRecorder recorder(clock, options);
  recorder.start();
  recorder.track("tr\nack");
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string name;
    for (unsigned k = random() % 40; k > 0; --k) name += static_cast<char>(random());
    recorder.span(Category::kTask, name, 1, i, i);
  }
  recorder.span(Category::kTask, std::string(1000, 'n'), 1, 0, 0);
  recorder.counter("nan", 0, std::nan(""));
  recorder.counter("inf", 0, std::numeric_limits<double>::infinity());
  recorder.counter("tiny", 0, 5e-324);
  recorder.counter("huge", 0, -1.7e308);
  recorder.span(Category::kTask, "before", 1, INT64_MIN / 4, 1);
  const Json trace = trace_of(recorder);
  EXPECT_EQ(events_of(trace, "X").size(), 302u);
  for (const Json* event : events_of(trace, "X"))
    EXPECT_LE(event->find("name")->string()->size(), 3 * 128u);
  for (const Json* event : events_of(trace, "C"))
    if (*event->find("name")->string() != "tiny" && *event->find("name")->string() != "huge") {
      EXPECT_EQ(event->find("args")->find("value")->integer().value(), 0);
    }
}

TEST(RuntimeTrace, JsonText) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain", "\"plain\""},
      {"a\"b\\c", R"("a\"b\\c")"},
      {"\n\r\t\x01\x7f", R"("\n\r\t\u0001\u007f")"},
      {"\xc3\xa9", "\"\xc3\xa9\""},
      {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},
      {"\xc3", R"("\ufffd")"},
      {"\xc0\x80", R"("\ufffd\ufffd")"},            // overlong
      {"\xed\xa0\x80", R"("\ufffd\ufffd\ufffd")"},  // surrogate
      {"\xf4\x90\x80\x80", R"("\ufffd\ufffd\ufffd\ufffd")"},
      {"\xe2\x82x", R"("\ufffd\ufffdx")"}};
  for (const auto& [text, json] : cases) {
    std::string out;
    append_json_string(out, text);
    EXPECT_EQ(out, json);
  }
}

TEST(RuntimeTrace, Threads) {
  SteadyClock clock;
  TraceRecorder::Options options;
  options.max_events = 500;
  TraceRecorder recorder(clock, options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        if (t == 0 && i % 50 == 0) recorder.start();
        const TraceScope scope(recorder, Category::kTask, "work", recorder.track("t"));
        recorder.counter("memory", recorder.now_ns(), i);
        if (i % 100 == 0) {
          std::ostringstream out;
          recorder.write_chrome_trace(out);
          EXPECT_NO_THROW(parse_json(out.str(), "trace"));
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(recorder.num_events(), 500u);
}

}  // namespace
}  // namespace gpk::runtime
