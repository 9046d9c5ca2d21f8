#include "runtime/sharing/partition_book.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"

namespace gpk::runtime {
namespace {

std::vector<std::string> names(const PartitionBook& book) {
  std::vector<std::string> names;
  for (const PartitionShare& share : book.shares()) names.push_back(share.name);
  return names;
}

TEST(RuntimePartitionBook, AddsAndRemoves) {
  PartitionBook book(1000);
  book.add({.name = "a", .memory_bytes = 400, .compute = 0.5, .bandwidth = 0.5});
  book.add({.name = "b", .memory_bytes = 600, .compute = 0.5});
  EXPECT_EQ(names(book), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(book.shares()[0].memory_bytes, 400u);
  EXPECT_TRUE(book.remove("a"));
  EXPECT_FALSE(book.remove("a"));
  book.add({.name = "a", .memory_bytes = 400, .compute = 0.5, .bandwidth = 1.0});
  EXPECT_EQ(names(book), (std::vector<std::string>{"b", "a"}));
}

TEST(RuntimePartitionBook, WhatIsLeftCannotBePassed) {
  PartitionBook book(1000);
  book.add({.name = "a", .memory_bytes = 600, .compute = 0.5, .bandwidth = 0.7});
  const auto kind = [&](const PartitionShare& share) { return kind_of([&] { book.add(share); }); };
  EXPECT_EQ(kind({.name = "a"}), Error::Kind::kValue);
  EXPECT_EQ(kind({.name = ""}), Error::Kind::kValue);
  EXPECT_EQ(kind({.name = "b", .compute = 1.5}), Error::Kind::kValue);
  EXPECT_EQ(kind({.name = "b", .bandwidth = std::nan("")}), Error::Kind::kValue);
  EXPECT_EQ(kind({.name = "b", .memory_bytes = 401}), Error::Kind::kState);
  EXPECT_EQ(kind({.name = "b", .compute = 0.6}), Error::Kind::kState);
  EXPECT_EQ(kind({.name = "b", .bandwidth = 0.4}), Error::Kind::kState);
  EXPECT_EQ(names(book), std::vector<std::string>{"a"});
  book.add({.name = "b", .memory_bytes = 400, .compute = 0.5, .bandwidth = 0.3});
}

TEST(RuntimePartitionBook, TenthsAddUpToOne) {
  PartitionBook book(0);
  for (int i = 0; i < 10; ++i) book.add({.name = std::to_string(i), .compute = 0.1});
  EXPECT_EQ(kind_of([&] { book.add({.name = "more", .compute = 1e-6}); }), Error::Kind::kState);
}

TEST(RuntimePartitionBook, ManyThreadsNeverPassTheDevice) {
  PartitionBook book(100);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, name = std::to_string(t)] {
      for (int i = 0; i < 200; ++i) try {
          book.add({.name = name, .memory_bytes = 40, .compute = 0.4});
          std::size_t sum = 0;
          for (const PartitionShare& share : book.shares()) sum += share.memory_bytes;
          EXPECT_LE(sum, 100u);
          EXPECT_TRUE(book.remove(name));
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), Error::Kind::kState);
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(book.shares().empty());
}

}  // namespace
}  // namespace gpk::runtime
