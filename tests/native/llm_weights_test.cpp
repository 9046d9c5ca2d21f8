// Weight plans, sets of shards, and loading through the transfer engine on the (fake) driver.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "core/array.h"
#include "device/host_copy.h"
#include "fake_driver/core_fixture.h"
#include "llm/weight_set.h"
#include "llm/weight_staging.h"
#include "llm_fixture.h"

namespace gpk::llm {
namespace {

struct Tensor {
  std::string name;
  std::string type;
  std::size_t num_elems;
  std::size_t item_bytes;
  [[nodiscard]] std::size_t bytes() const { return num_elems * item_bytes; }
};

// Tensors in this order, their bytes a pattern.
std::string file_with(const std::vector<Tensor>& tensors, unsigned seed = 0) {
  std::string header = "{";
  std::size_t at = 0;
  for (const Tensor& t : tensors) {
    header +=
        cat(at == 0 && header.size() == 1 ? "" : ",", "\"", t.name, "\":{\"dtype\":\"", t.type,
            "\",\"shape\":[", t.num_elems, "],\"data_offsets\":[", at, ",", at + t.bytes(), "]}");
    at += t.bytes();
  }
  return file_of(header + "}", pattern(at, seed));
}

class WeightsTest : public CoreTest {
 protected:
  ~WeightsTest() override { WeightStaging::of(kGpu).trim(); }

  static std::string bytes_of(const Array& array) {
    std::string bytes(array.nbytes(), '\0');
    device::to_host(array, bytes.data());
    return bytes;
  }
  static void expect_equal(const WeightSet& set, const std::map<std::string, Array>& arrays) {
    for (const auto& [name, array] : arrays) {
      SCOPED_TRACE(name);
      const TensorInfo& info = set.info(name);
      std::string expected(static_cast<std::size_t>(info.size_bytes), '\0');
      set.file_of(name).file().read(info.offset, expected.data(), expected.size());
      EXPECT_EQ(array.shape(), info.shape);
      EXPECT_EQ(array.dtype(), info.dtype);
      EXPECT_TRUE(bytes_of(array) == expected);
      EXPECT_TRUE(array.buffer()->frozen());
    }
  }

  Folder folder{"weights"};
};

std::vector<WeightSource> sources_of(const SafeTensorsFile& file) {
  std::vector<WeightSource> sources;
  for (const TensorInfo& tensor : file.tensors()) sources.push_back({&file.file(), &tensor});
  return sources;
}

TEST_F(WeightsTest, PlanOfBlocks) {
  const SafeTensorsFile file(folder.write("a", file_with({{"w", "BF16", 300, 2},
                                                          {"i", "I32", 2, 4},
                                                          {"e", "F32", 0, 4},
                                                          {"x", "F32", 64, 4},
                                                          {"y", "F32", 64, 4},
                                                          {"q", "F8_E4M3", 10, 1}})));
  const auto sources = sources_of(file);
  EXPECT_EQ(to_string(plan_weights(sources, std::nullopt, 2000)),
            "block 0: 5 tensors, 1546 bytes as read, 1546 as loaded: w, i, x, y, q\n");
  EXPECT_EQ(to_string(plan_weights(sources, std::nullopt, 1024)),
            "block 0: 2 tensors, 776 bytes as read, 776 as loaded: w, i\n"
            "block 1: 3 tensors, 522 bytes as read, 522 as loaded: x, y, q\n");
  EXPECT_EQ(to_string(plan_weights(sources, DType::kFloat32, 2000)),
            "block 0: 1 tensor, 600 bytes as read, 1200 as loaded: w\n"
            "block 1: 4 tensors, 778 bytes as read, 778 as loaded: i, x, y, q\n");
  EXPECT_EQ(plan_weights(sources, std::nullopt, 1).size(), 5u);  // a tensor is never split
  for (const WeightBlock& block : plan_weights(sources, DType::kFloat16, 1 << 20))
    for (const PlacedWeight& weight : block.weights) {
      EXPECT_EQ(weight.offset % kWeightAlignBytes, 0u);
      EXPECT_EQ(weight.raw_offset % kWeightAlignBytes, 0u);
    }
  EXPECT_CONTAINS(message_of<InvalidArgument>([&] { plan_weights(sources, DType::kInt8, 2000); }),
                  "load: dtype is int8, expected float16, bfloat16, float32 or float64");
}

// Every window filled by its reads gives the block as read.
TEST_F(WeightsTest, ReadsFillTheBlock) {
  const SafeTensorsFile file(folder.write(
      "a",
      file_with(
          {{"a", "U8", 256, 1}, {"b", "U8", 512, 1}, {"c", "U8", 3, 1}, {"d", "U8", 1000, 1}})));
  const auto plan = plan_weights(sources_of(file), std::nullopt, 1 << 20);
  ASSERT_EQ(plan.size(), 1u);
  const WeightBlock& block = plan[0];
  EXPECT_EQ(plan_reads(block, 0, block.raw_bytes).size(), 2u);  // a, b and c are one
  for (const std::size_t window : {1u, 7u, 256u, 1000u, 4096u}) {
    std::string filled(block.raw_bytes, '\0');
    for (std::size_t begin = 0; begin < block.raw_bytes; begin += window) {
      const std::size_t end = std::min(begin + window, block.raw_bytes);
      for (const WeightRead& read : plan_reads(block, begin, end)) {
        ASSERT_LE(begin + read.offset + read.bytes, end);
        read.file->read(read.file_offset, filled.data() + begin + read.offset, read.bytes);
      }
    }
    for (const PlacedWeight& weight : block.weights) {
      const TensorInfo& tensor = *weight.source.tensor;
      std::string expected(static_cast<std::size_t>(tensor.size_bytes), '\0');
      file.file().read(tensor.offset, expected.data(), expected.size());
      EXPECT_EQ(filled.substr(weight.raw_offset, expected.size()), expected) << tensor.name;
    }
  }
}

TEST_F(WeightsTest, LoadsAFile) {
  const std::size_t large = 3 * kStagingSlotBytes + 12345;
  const std::string path = folder.write("a", file_with({{"a", "U8", 5, 1},
                                                        {"b", "F32", large / 4, 4},
                                                        {"c", "I16", 100, 2},
                                                        {"empty", "F32", 0, 4},
                                                        {"d", "U8", large, 1}}));
  const auto set = WeightSet::open(path);
  for (const Device device : {kCpu, kGpu})
    for (const std::size_t block_bytes : {std::size_t{0}, std::size_t{1} << 20}) {
      std::vector<std::uint64_t> done;
      std::uint64_t total = 0;
      LoadOptions options;
      options.block_bytes = block_bytes;
      options.progress = [&](std::uint64_t bytes, std::uint64_t all) {
        done.push_back(bytes);
        total = all;
      };
      const auto arrays = set->load(set->names(), device, options);
      EXPECT_EQ(arrays.size(), 5u);
      expect_equal(*set, arrays);
      EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
      EXPECT_EQ(done.front(), 0u);
      EXPECT_EQ(done.back(), total);
      if (block_bytes == 0) {
        EXPECT_EQ(arrays.at("a").buffer(), arrays.at("d").buffer());
      }
    }
  EXPECT_EQ(bytes_of(set->load_one("a", kGpu)), pattern(5));
}

TEST_F(WeightsTest, PinnedMemoryIsBounded) {
  const std::size_t bytes = (kMaxStagingSlots + 4) * kStagingSlotBytes;
  const std::string header =
      cat("{\"a\":{\"dtype\":\"U8\",\"shape\":[", bytes, "],\"data_offsets\":[0,", bytes, "]}}");
  const std::string path = folder.write("a", file_of(header));
  std::filesystem::resize_file(path, 8 + header.size() + bytes);  // a hole on disk
  const auto set = WeightSet::open(path);
  LoadOptions options;
  options.num_threads = 64;
  const Array array = set->load_one("a", kGpu, options);
  EXPECT_EQ(array.nbytes(), bytes);
  const auto slots = WeightStaging::of(kGpu).take(1000);  // all are back
  EXPECT_EQ(slots.size(), kMaxStagingSlots);
  WeightStaging::of(kGpu).give_back(slots);
}

TEST_F(WeightsTest, ConcurrentLoadsShareTheStaging) {
  const std::size_t bytes = 5 * kStagingSlotBytes + 17;
  const auto set = WeightSet::open(folder.write("a", file_with({{"a", "U8", bytes, 1}})));
  std::vector<std::thread> threads;
  std::atomic<int> num_right{0};
  const std::string expected = pattern(bytes);
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      if (bytes_of(set->load_one("a", kGpu)) == expected) ++num_right;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_right, 4);
}

TEST_F(WeightsTest, ProgressAndReadErrorsEndTheLoad) {
  const std::size_t bytes = 6 * kStagingSlotBytes;
  const std::string path = folder.write("a", file_with({{"a", "U8", bytes, 1}}));
  const auto set = WeightSet::open(path);
  for (const Device device : {kCpu, kGpu}) {
    LoadOptions options;
    options.progress = [](std::uint64_t done, std::uint64_t) {
      if (done > 0) throw Error("stop");
    };
    EXPECT_EQ(message_of<Error>([&] { (void)set->load(set->names(), device, options); }), "stop");
  }
  std::filesystem::resize_file(path, bytes / 2);
  for (const Device device : {kCpu, kGpu})
    EXPECT_CONTAINS(message_of<Error>([&] { (void)set->load(set->names(), device); }),
                    "has become shorter");
}

TEST_F(WeightsTest, MoreThanTheLimitLoadsByEviction) {
  expect_copy_stream();
  auto& pool = device::device_pool(kGpu);
  const std::size_t chunk = pool.chunk_bytes();
  const std::size_t each = 4 * chunk;
  std::vector<Tensor> tensors;
  for (int i = 0; i < 6; ++i) tensors.push_back({cat("t", i), "U8", each, 1});
  const auto set = WeightSet::open(folder.write("a", file_with(tensors)));
  pool.set_quota(2 * each);
  LoadOptions options;
  options.block_bytes = each;
  EXPECT_THROW(set->load(set->names(), kGpu, options), OutOfMemory);
  options.evictable = true;
  {
    const auto arrays = set->load(set->names(), kGpu, options);
    EXPECT_GE(pool.stats().num_evictions, 4u);
    expect_equal(*set, arrays);
  }
  pool.set_quota(0);
}

TEST_F(WeightsTest, AnIndexWithShards) {
  folder.write("s1", file_with({{"a", "U8", 100, 1}, {"b", "F32", 30, 4}}, 1));
  folder.write("s2", file_with({{"c", "I8", 77, 1}}, 2));
  const std::string path =
      folder.write("model.safetensors.index.json",
                   R"({"metadata":{"total_size":1},"weight_map":{"c":"s2","a":"s1","b":"s1"}})");
  const auto set = WeightSet::open(folder.path(""));  // a folder
  EXPECT_EQ(set->path(), path);
  EXPECT_EQ(set->names(), (std::vector<std::string>{"c", "a", "b"}));
  EXPECT_EQ(set->files().size(), 2u);
  set->verify();
  expect_equal(*set, set->load(set->names(), kGpu));
  expect_equal(*set, set->load(set->names(), kCpu));
  const std::string expected[] = {"a", "b", "x", "y"};
  EXPECT_CONTAINS(message_of<InvalidArgument>([&] { set->check_names(expected); }),
                  "missing 'x', 'y'; unexpected 'c'");
  EXPECT_CONTAINS(message_of<InvalidArgument>([&] { (void)set->info("z"); }), "has no tensor 'z'");
}

TEST_F(WeightsTest, BadIndicesAreRefusedByName) {
  folder.write("s1", file_with({{"a", "U8", 100, 1}, {"b", "U8", 4, 1}}));
  folder.write("s2", file_with({{"b", "U8", 4, 1}}));
  const auto open = [&](const std::string& text) {
    return WeightSet::open(folder.write("x.index.json", text));
  };
  const auto problem = [&](const std::string& text) {
    return message_of<InvalidArgument>([&] { open(text); });
  };
  EXPECT_CONTAINS(problem("[]"), "weight_map");
  EXPECT_CONTAINS(problem("{}"), "weight_map");
  EXPECT_CONTAINS(problem(R"({"weight_map":{"a":1}})"), "tensor 'a' is in an integer");
  EXPECT_CONTAINS(problem(R"({"weight_map":{"a":"s1","a":"s2"}})"), "\"a\" occurs twice");
  for (const char* shard :
       {"", "..", "../s1", "a/../../s1", "/etc/passwd", "a\\\\..\\\\b", "s1\\u0000"})
    EXPECT_CONTAINS(problem(cat(R"({"weight_map":{"a":")", shard, "\"}}")),
                    "expected a file inside the index's folder");
  const auto missing = open(R"({"weight_map":{"a":"s1","c":"s1"}})");
  EXPECT_CONTAINS(message_of<InvalidArgument>([&] { (void)missing->info("a"); }), "no tensor 'c'");
  const auto extra = open(R"({"weight_map":{"a":"s1"}})");
  EXPECT_CONTAINS(message_of<InvalidArgument>([&] { extra->verify(); }), "has 'b', which");
  const auto twice = open(R"({"weight_map":{"a":"s1","b":"s2"}})");
  EXPECT_CONTAINS(message_of<InvalidArgument>([&] { twice->verify(); }), "in another file");
  EXPECT_THROW((void)open(R"({"weight_map":{"a":"s3"}})")->info("a"), Error);
  EXPECT_THROW(WeightSet::open(folder.path("nothing")), Error);
}

}  // namespace
}  // namespace gpk::llm
