#include <gtest/gtest.h>

#include <numeric>

#include "expect.h"
#include "fake_driver/core_fixture.h"
#include "llm/kv_swap.h"
#include "llm_engine_fake.h"

namespace gpk::llm {
namespace {

float& key(const KvPages& pages, std::int32_t page, std::int64_t layer = 1) {
  return static_cast<float*>(pages.k(layer).data())[page * kFakePage + 3];
}
float& value(const KvPages& pages, std::int32_t page, std::int64_t layer = 0) {
  return static_cast<float*>(pages.v(layer).data())[page * kFakePage + 5];
}

TEST(KvPages, ASequenceHoldsItsPages) {
  const auto pages = fake_pages(4);
  {
    Sequence sequence(pages, 100);
    sequence.reserve(40);
    EXPECT_EQ(sequence.table().size(), 3u);
    EXPECT_EQ(pages->num_free(), 1);
    EXPECT_EQ(sequence.pages_missing(49), 1);
    EXPECT_EQ(kind_of([&] { sequence.reserve(80); }), Error::Kind::kMemory);
    EXPECT_EQ(pages->num_free(), 1);
    EXPECT_EQ(kind_of([&] { sequence.reserve(101); }), Error::Kind::kValue);
    const Sequence moved = std::move(sequence);
    EXPECT_EQ(pages->num_free(), 1);
  }
  EXPECT_EQ(pages->num_free(), 4);
  EXPECT_EQ(pages->page_bytes(), 2u * 2 * kFakePage * 4);
}

TEST(KvPages, ASharedPageIsCopiedBeforeItIsWritten) {
  const FakeCopies copies;
  const auto pages = fake_pages(4);
  Sequence first(pages, 100);
  first.reserve(32);
  first.advance(20);
  key(*pages, first.table()[1]) = 7.0f;
  value(*pages, first.table()[1]) = 8.0f;
  Sequence second(pages, 100);
  for (const std::int32_t page : first.table()) pages->counts().share(page);
  second.adopt(first.table(), 20);
  EXPECT_EQ(pages->num_free(), 2);
  EXPECT_EQ(second.pages_missing(21), 1);
  second.reserve(21);
  EXPECT_EQ(pages->num_free(), 1);
  EXPECT_EQ(second.table()[0], first.table()[0]);
  ASSERT_NE(second.table()[1], first.table()[1]);
  EXPECT_EQ(key(*pages, second.table()[1]), 7.0f);
  EXPECT_EQ(value(*pages, second.table()[1]), 8.0f);
  first.reserve(21);  // nobody else holds it any more
  EXPECT_EQ(pages->num_free(), 1);
}

TEST(KvSwap, BytesComeBack) {
  const auto pages = fake_pages(4);
  KvSwap swap(pages, 3);
  Sequence sequence(pages, 100);
  sequence.reserve(60);
  sequence.advance(33);
  for (std::int32_t i = 0; i < 4; ++i) {
    const std::int32_t page = sequence.table()[static_cast<std::size_t>(i)];
    key(*pages, page) = static_cast<float>(i);
    value(*pages, page) = static_cast<float>(10 + i);
  }
  {
    SwappedSequence swapped = swap.evict(sequence);
    EXPECT_EQ(swapped.num_pages(), 3);
    EXPECT_EQ(swapped.length(), 33);
    EXPECT_EQ(sequence.length(), 0);
    EXPECT_EQ(pages->num_free(), 4);
    EXPECT_EQ(swap.num_free(), 0);
    const std::int32_t taken = pages->counts().take();
    for (std::int32_t page = 0; page < 4; ++page) key(*pages, page) = value(*pages, page) = -1.0f;
    swap.restore(swapped, sequence);
    pages->counts().give(taken);
  }
  EXPECT_EQ(swap.num_free(), 3);
  EXPECT_EQ(sequence.length(), 33);
  for (std::int32_t i = 0; i < 3; ++i) {
    const std::int32_t page = sequence.table()[static_cast<std::size_t>(i)];
    EXPECT_EQ(key(*pages, page), static_cast<float>(i));
    EXPECT_EQ(value(*pages, page), static_cast<float>(10 + i));
  }
}

TEST(KvSwap, IsBounded) {
  const auto pages = fake_pages(4);
  KvSwap swap(pages, 1);
  Sequence sequence(pages, 100);
  sequence.reserve(20);
  sequence.advance(20);
  EXPECT_EQ(kind_of([&] { swap.evict(sequence); }), Error::Kind::kMemory);
  EXPECT_EQ(sequence.length(), 20);
  EXPECT_EQ(swap.num_free(), 1);
  sequence.truncate(16);
  SwappedSequence swapped = swap.evict(sequence);
  Sequence other(pages, 100);
  other.reserve(64);
  EXPECT_EQ(kind_of([&] { swap.restore(swapped, sequence); }), Error::Kind::kMemory);
  EXPECT_EQ(swapped.num_pages(), 1);
}

class KvSwapOnAGpu : public CoreTest {};

TEST_F(KvSwapOnAGpu, BytesComeBack) {
  const auto pages = std::make_shared<KvPages>(fake_config(), DType::kFloat32, kGpu, 4, kFakePage);
  KvSwap swap(pages, 4);
  EXPECT_EQ(fake::num_live(fake::Kind::kPinned), 4u);  // ready before anybody waits for them
  Stream& stream = *current_stream(kGpu);
  const auto page_of = [&](const Array& cache, std::int32_t page) {
    return cache.device_ptr() + static_cast<std::size_t>(page * kFakePage) * 4;
  };
  Sequence sequence(pages, 100);
  sequence.reserve(32);
  sequence.advance(32);
  std::vector<float> numbers(kFakePage);
  const auto fill = [&](float first) {
    std::iota(numbers.begin(), numbers.end(), first);
    for (std::int64_t layer = 0; layer < 2; ++layer)
      for (std::int32_t i = 0; i < 2; ++i)
        for (const Array* cache : {&pages->k(layer), &pages->v(layer)}) {
          numbers[0] = ++first;
          copy_to_device(page_of(*cache, i), numbers.data(), kFakePage * 4, stream);
        }
    stream.synchronize();
  };
  fill(0.0f);  // pages 0 and 1 are the sequence's
  SwappedSequence swapped = swap.evict(sequence);
  fill(1000.0f);
  Sequence other(pages, 100);
  other.reserve(16);
  swap.restore(swapped, sequence);
  float expected = 0.0f;
  for (std::int64_t layer = 0; layer < 2; ++layer)
    for (std::size_t i = 0; i < 2; ++i)
      for (const Array* cache : {&pages->k(layer), &pages->v(layer)}) {
        std::vector<float> back(kFakePage);
        copy_to_host(back.data(), page_of(*cache, sequence.table()[i]), kFakePage * 4, stream);
        stream.synchronize();
        EXPECT_EQ(back[0], ++expected);
        EXPECT_EQ(back[5], 5.0f);
      }
}

}  // namespace
}  // namespace gpk::llm
