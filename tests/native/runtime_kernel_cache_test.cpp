#include "core/private_folder.h"
#include "runtime/dispatch/kernel_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "runtime/dispatch/kernel_cache_disk.h"
#include "runtime/dispatch/kernel_cache_json.h"
#include "runtime/error.h"
#include "runtime_expect.h"
#include "temp_folder.h"

namespace gpk::runtime {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kSecond = 1'000'000'000;

TEST(RuntimeKernelCache, Keys) {
  CompileOptions options;
  const std::uint64_t plain = KernelCache::compute_key("source", options);
  EXPECT_EQ(plain, KernelCache::compute_key("source", CompileOptions{}));
  std::set<std::uint64_t> keys{plain, KernelCache::compute_key("sourcf", options)};
  keys.insert(KernelCache::compute_key("source", CompileOptions{"sm_90", {}, {}, {}}));
  keys.insert(KernelCache::compute_key("source", CompileOptions().flag("-G")));
  keys.insert(KernelCache::compute_key("source", CompileOptions().define("-G")));
  keys.insert(KernelCache::compute_key("source", CompileOptions().include("-G")));
  keys.insert(KernelCache::compute_key("source", CompileOptions().flag("-").flag("G")));
  keys.insert(KernelCache::compute_key("source", CompileOptions().define("N", "4")));
  EXPECT_EQ(keys.size(), 8u);
  EXPECT_EQ(CompileOptions().define("N", "4").defines.front(), "N=4");
  EXPECT_NE(KernelCache::hash_source("a"), KernelCache::hash_source("b"));
  EXPECT_EQ(KernelCache::hash_source(""), KernelCache::hash_source(""));
}

TEST(RuntimeKernelCache, HitsMissesAndHandles) {
  ManualClock clock;
  KernelCache cache(clock);
  EXPECT_TRUE(cache.is_empty());
  EXPECT_EQ(cache.stats().hit_rate(), 0.0);
  const std::uint64_t key = cache.insert("source", "add", "ptx");
  EXPECT_TRUE(cache.contains(key));
  EXPECT_EQ(*cache.get(key)->ptx, "ptx");
  EXPECT_EQ(cache.get_by_name("add")->key, key);
  EXPECT_FALSE(cache.get(key + 1).has_value());
  EXPECT_FALSE(cache.get_by_name("mul").has_value());
  EXPECT_DOUBLE_EQ(cache.stats().hit_rate(), 0.5);
  EXPECT_EQ(cache.get(key)->access_count, 3u);
  EXPECT_TRUE(cache.set_handles(key, 11, 12));
  EXPECT_FALSE(cache.set_handles(key + 1, 11, 12));
  EXPECT_EQ(cache.get(key)->function_handle, 12u);
  EXPECT_EQ(cache.stats().loaded_count, 1u);
  // The one inserted last has the name.
  const std::uint64_t other = cache.insert("other", "add", "ptx2");
  EXPECT_EQ(cache.get_by_name("add")->key, other);
  EXPECT_TRUE(cache.remove(other));
  EXPECT_FALSE(cache.remove(other));
  EXPECT_EQ(cache.get_by_name("add")->key, key);
  EXPECT_EQ(cache.kernel_names(), (std::vector<std::string>{"add"}));
  cache.insert_key(key, "plus", "longer ptx");  // replaces it
  EXPECT_EQ(cache.len(), 1u);
  EXPECT_EQ(cache.stats().ptx_size, 10u);
  EXPECT_EQ(cache.stats().loaded_count, 0u);
  EXPECT_EQ(cache.kernel_names(), (std::vector<std::string>{"plus"}));
  cache.clear();
  EXPECT_EQ(cache.len() + cache.stats().ptx_size, 0u);
}

TEST(RuntimeKernelCache, EvictsTheLeastRecentlyUsed) {
  ManualClock clock;
  CacheConfig config;
  config.max_entries = 3;
  config.max_ptx_size = 100;
  KernelCache cache(clock, config);
  for (std::uint64_t key = 1; key <= 3; ++key) cache.insert_key(key, "k", std::string(10, 'x'));
  (void)cache.get(1);
  cache.insert_key(4, "k", std::string(10, 'x'));
  EXPECT_FALSE(cache.contains(2));
  EXPECT_TRUE(cache.contains(1));
  cache.insert_key(5, "k", std::string(85, 'x'));  // by size: 3 and 1 go, 4 stays
  EXPECT_EQ(cache.stats().evictions, 3u);
  EXPECT_TRUE(cache.contains(4));
  EXPECT_EQ(cache.stats().ptx_size, 95u);
  EXPECT_EQ(kind_of([&] { cache.insert_key(6, "k", std::string(101, 'x')); }), Error::Kind::kValue);
  EXPECT_EQ(cache.len(), 2u);
  config.enable_eviction = false;
  KernelCache fixed(clock, config);
  for (std::uint64_t key = 1; key <= 3; ++key) fixed.insert_key(key, "k", "x");
  EXPECT_EQ(kind_of([&] { fixed.insert_key(4, "k", "x"); }), Error::Kind::kState);
  fixed.insert_key(3, "k", "y");  // replacing needs no room
  EXPECT_EQ(*fixed.get(3)->ptx, "y");
  CacheConfig bad;
  bad.max_entries = 0;
  EXPECT_EQ(kind_of([&] { KernelCache wrong(clock, bad); }), Error::Kind::kValue);
  bad = {};
  bad.ttl_seconds = -1;
  EXPECT_EQ(kind_of([&] { KernelCache wrong(clock, bad); }), Error::Kind::kValue);
}

TEST(RuntimeKernelCache, Expiry) {
  ManualClock clock;
  CacheConfig config;
  config.ttl_seconds = 10;
  KernelCache cache(clock, config);
  cache.insert_key(1, "a", "x");
  clock.advance_ns(6 * kSecond);
  cache.insert_key(2, "b", "x");
  (void)cache.get(1);  // use does not prolong it
  clock.advance_ns(4 * kSecond);
  EXPECT_FALSE(cache.contains(1));
  EXPECT_FALSE(cache.get(1).has_value());
  EXPECT_EQ(cache.stats().ttl_evictions, 1u);
  EXPECT_EQ(cache.clear_expired(), 0u);
  clock.advance_ns(6 * kSecond);
  EXPECT_EQ(cache.clear_expired(), 1u);
  EXPECT_TRUE(cache.is_empty());
  EXPECT_EQ(cache.stats().ttl_evictions, 2u);
}

TEST(RuntimeKernelCache, Threads) {
  SteadyClock clock;
  CacheConfig config;
  config.max_entries = 20;
  KernelCache cache(clock, config);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 300; ++i) {
        const std::uint64_t key = random() % 40;
        const auto found = cache.get(key);
        if (found) {
          EXPECT_EQ(*found->ptx, std::to_string(key));
        } else {
          cache.insert_key(key, "n" + std::to_string(key % 5), std::to_string(key));
        }
        if (i % 20 == 0) cache.remove(key);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.len(), 20u);
  EXPECT_EQ(cache.stats().hits + cache.stats().misses, 1200u);
}

TEST(RuntimeKernelCacheJson, ReadsWhatIsJson) {
  const auto value = parse_json(
      R"( {"a":[1,-2.5e1,true,false,null,"x\n\u00e9\ud83d\ude00\"\/"],"b":{"c":{}},"big":9223372036854775807} )");
  ASSERT_TRUE(value.has_value());
  const auto& items = value->find("a")->items;
  ASSERT_EQ(items.size(), 6u);
  EXPECT_EQ(items[0].integer, 1);
  EXPECT_DOUBLE_EQ(items[1].real, -25.0);
  EXPECT_TRUE(items[2].boolean);
  EXPECT_EQ(items[5].text, "x\n\xc3\xa9\xf0\x9f\x98\x80\"/");
  EXPECT_EQ(value->find("big")->integer, INT64_MAX);
  EXPECT_EQ(value->find("nothing"), nullptr);
  EXPECT_NE(value->find("b")->find("c"), nullptr);
}

TEST(RuntimeKernelCacheJson, RefusesTheRest) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "}",
                           "[1,]",
                           "{\"a\":}",
                           "{\"a\" 1}",
                           "{a:1}",
                           "[1 2]",
                           "01",
                           "-",
                           "1.",
                           "1e",
                           "+1",
                           "nul",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\ud800\\u0041\"",
                           "\"\\udc00\"",
                           "\"\x01\"",
                           "1 1",
                           "[1]]",
                           "NaN",
                           "'a'",
                           "{\"a\":1,}",
                           "\"\\"})
    EXPECT_FALSE(parse_json(text).has_value()) << text;
  EXPECT_FALSE(parse_json(std::string(100'000, '[')).has_value());
  // Any cut or damage: no crash.
  const std::string good = R"({"a":[1,2.5,"\u0041",{"b":null}],"c":true})";
  ASSERT_TRUE(parse_json(good).has_value());
  std::mt19937 random(1);
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(parse_json(good.substr(0, i)).has_value()) << i;
    for (int k = 0; k < 20; ++k) {
      std::string damaged = good;
      damaged[i] = static_cast<char>(random());
      (void)parse_json(damaged);
    }
  }
}

class RuntimeKernelCacheDisk : public ::testing::Test {
 protected:
  void SetUp() override { clock_.set_ns(1000 * kSecond); }
  PersistentCacheConfig config() const {
    PersistentCacheConfig result;
    result.cache_dir = dir_ / "cache";
    return result;
  }
  fs::path index() const { return dir_ / "cache" / "index.json"; }
  std::size_t num_files() const {
    std::size_t count = 0;
    for (const auto& file : fs::directory_iterator(dir_ / "cache"))
      count += file.path().extension() == ".ptx" ? 1 : 0;
    return count;
  }
  static void write(const fs::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  static constexpr ArchFingerprint kArch{9, 0, 580, 95, 13, 0};
  ManualClock clock_;
  const TempFolder temp_{"kernel_cache"};
  const fs::path& dir_ = temp_.path();
  const PrivateFolder files_{(dir_ / "cache").string()};
};

TEST_F(RuntimeKernelCacheDisk, SurvivesTheProcess) {
  const std::string bytes("PTX\0\n\"bytes\"", 12);
  {
    PersistentCache cache(clock_, files_, config(), kArch);
    EXPECT_FALSE(cache.get(1).has_value());
    EXPECT_TRUE(cache.insert(1, "odd \"name\"\n\xff", bytes));
    EXPECT_TRUE(cache.insert(~0ull, "other", ""));
    EXPECT_EQ(cache.get(1), bytes);
    EXPECT_DOUBLE_EQ(cache.stats().hit_rate(), 0.5);
  }
  ArchFingerprint newer = kArch;
  newer.compiler_minor = 3;  // the same SM and driver
  PersistentCache cache(clock_, files_, config(), newer);
  EXPECT_EQ(cache.len(), 2u);
  EXPECT_EQ(cache.get(1), bytes);
  EXPECT_EQ(cache.get(~0ull), "");
  EXPECT_EQ(cache.get_entry(1)->access_count, 2u);
  EXPECT_EQ(cache.get_entry(~0ull)->name, "other");
  EXPECT_EQ(cache.stats().total_size, 12u);
  EXPECT_TRUE(cache.remove(1));
  EXPECT_FALSE(cache.remove(1));
  EXPECT_EQ(num_files(), 1u);
  EXPECT_EQ(cache.entries().size(), 1u);
}

TEST_F(RuntimeKernelCacheDisk, OtherArchitectureWipes) {
  {
    PersistentCache(clock_, files_, config(), kArch).insert(1, "a", "x");
  }
  write(dir_ / "cache" / "keep.txt", "not ours");
  ArchFingerprint other = kArch;
  other.driver_major = 590;
  EXPECT_FALSE(kArch.is_compatible(other));
  PersistentCache cache(clock_, files_, config(), other);
  EXPECT_EQ(cache.len(), 0u);
  EXPECT_EQ(num_files(), 0u);
  EXPECT_TRUE(fs::exists(dir_ / "cache" / "keep.txt"));
}

TEST_F(RuntimeKernelCacheDisk, CorruptIndexIsAnEmptyCache) {
  {
    PersistentCache(clock_, files_, config(), kArch).insert(1, "a", "x");
  }
  std::string good;
  {
    std::ifstream file(index());
    good.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<std::string> bad = {"",
                                  "junk",
                                  "{}",
                                  "[]",
                                  R"({"schema":1})",
                                  R"({"schema":2,"arch":[9,0,580,95,13,0],"entries":[]})",
                                  R"({"schema":1,"arch":[9,0,580,95,13],"entries":[]})",
                                  R"({"schema":1,"arch":[9,0,580,95,13,0],"entries":[{}]})",
                                  R"({"schema":1,"arch":[9,0,580,95,13,0],"entries":[7]})"};
  for (std::size_t cut = 1; cut < good.size(); cut += 13) bad.push_back(good.substr(0, cut));
  for (const std::string& text : bad) {
    write(index(), text);
    PersistentCache cache(clock_, files_, config(), kArch);
    if (text + "\n" == good) continue;
    EXPECT_EQ(cache.len(), 0u) << text;
    EXPECT_FALSE(cache.get(1).has_value());
    EXPECT_TRUE(cache.insert(1, "a", "x"));
    EXPECT_EQ(cache.get(1), "x");
  }
}

TEST_F(RuntimeKernelCacheDisk, CorruptFilesAreMisses) {
  PersistentCache cache(clock_, files_, config(), kArch);
  for (const std::string& damage : {std::string("y"), std::string(""), std::string("xx")}) {
    ASSERT_TRUE(cache.insert(1, "a", "x"));
    write(dir_ / "cache" / "0000000000000001.ptx", damage);
    EXPECT_FALSE(cache.get(1).has_value());
    EXPECT_FALSE(cache.contains(1));
  }
  ASSERT_TRUE(cache.insert(1, "a", "x"));
  fs::remove(dir_ / "cache" / "0000000000000001.ptx");
  EXPECT_FALSE(cache.get(1).has_value());
  EXPECT_EQ(cache.stats().corrupt, 4u);
  EXPECT_EQ(cache.stats().total_size, 0u);
}

TEST_F(RuntimeKernelCacheDisk, LimitsAndExpiry) {
  auto small = config();
  small.max_entries = 2;
  small.max_size = 100;
  small.ttl_seconds = 50;
  PersistentCache cache(clock_, files_, small, kArch);
  cache.insert(1, "a", std::string(40, 'x'));
  clock_.advance_ns(kSecond);
  cache.insert(2, "b", std::string(40, 'x'));
  clock_.advance_ns(kSecond);
  (void)cache.get(1);
  cache.insert(3, "c", std::string(40, 'x'));
  EXPECT_FALSE(cache.contains(2));
  EXPECT_TRUE(cache.contains(1));
  EXPECT_EQ(cache.stats().evictions, 1u);
  EXPECT_FALSE(cache.insert(4, "d", std::string(101, 'x')));
  EXPECT_TRUE(cache.insert(4, "d", std::string(90, 'x')));
  EXPECT_EQ(cache.len(), 1u);
  clock_.advance_ns(50 * kSecond);
  EXPECT_FALSE(cache.get(4).has_value());
  EXPECT_EQ(cache.stats().ttl_evictions, 1u);
  cache.insert(5, "e", "x");
  clock_.advance_ns(50 * kSecond);
  EXPECT_EQ(cache.cleanup(), 1u);
  EXPECT_EQ(num_files(), 0u);
  auto manual = small;
  manual.auto_cleanup = false;
  PersistentCache full(clock_, files_, manual, kArch);
  EXPECT_TRUE(full.insert(1, "a", "x"));
  EXPECT_TRUE(full.insert(2, "a", "x"));
  EXPECT_FALSE(full.insert(3, "a", "x"));
  EXPECT_TRUE(full.insert(2, "a", "y"));
  full.clear();
  EXPECT_EQ(full.len() + num_files(), 0u);
  EXPECT_FALSE(fs::exists(index()));
}

TEST_F(RuntimeKernelCacheDisk, OrphansGo) {
  {
    PersistentCache(clock_, files_, config(), kArch).insert(1, "a", "x");
  }
  write(dir_ / "cache" / "00000000000000ff.ptx", "left by a process that died");
  PersistentCache cache(clock_, files_, config(), kArch);
  EXPECT_EQ(num_files(), 1u);
  EXPECT_EQ(cache.len(), 1u);
}

TEST_F(RuntimeKernelCacheDisk, FolderThatCannotBeWritten) {
  fs::create_directories(dir_);
  write(dir_ / "cache", "a file where the folder should be");
  PersistentCache cache(clock_, files_, config(), kArch);
  EXPECT_FALSE(cache.insert(1, "a", "x"));
  EXPECT_FALSE(cache.get(1).has_value());
  EXPECT_EQ(cache.stats().write_failures, 1u);
  EXPECT_EQ(cache.len(), 0u);
  EXPECT_EQ(kind_of([&] { PersistentCache none(clock_, files_, {}, kArch); }), Error::Kind::kValue);
  auto bad = config();
  bad.max_entries = 0;
  EXPECT_EQ(kind_of([&] { PersistentCache none(clock_, files_, bad, kArch); }),
            Error::Kind::kValue);
  bad = config();
  bad.ttl_seconds = -1;
  EXPECT_EQ(kind_of([&] { PersistentCache none(clock_, files_, bad, kArch); }),
            Error::Kind::kValue);
}

TEST_F(RuntimeKernelCacheDisk, Threads) {
  const WallClock wall;
  PersistentCache cache(wall, files_, config(), kArch);
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 12; ++i) {
        const std::uint64_t key = i % 4;
        EXPECT_TRUE(cache.insert(key, "n", std::to_string(key)));
        const auto found = cache.get(key);
        EXPECT_EQ(found, std::to_string(key));
        if (t == 0) (void)cache.entries();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.len(), 4u);
}

}  // namespace
}  // namespace gpk::runtime
