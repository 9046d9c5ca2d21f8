// Files of torch.save: what is loaded, and what is refused without being run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/error.h"
#include "base/file_error.h"
#include "device/host_copy.h"
#include "expect.h"
#include "fake_driver/core_fixture.h"
#include "llm/torch_file.h"
#include "llm_fixture.h"
#include "llm_torch_fixture.h"

namespace gpk::llm {
namespace {

constexpr Device kHost{DeviceKind::kCpu, 0};

std::string bytes_of(const Array& array) {
  std::string bytes(array.nbytes(), '\0');
  device::to_host(array, bytes.data());
  return bytes;
}

// Two dicts with three tensors; "b" is a transposed view, "c" shares its storage.
std::string good_pickle() {
  const TorchView a{"FloatStorage", "0", 6, 0, {2, 3}, {3, 1}};
  const TorchView b{"BFloat16Storage", "1", 8, 2, {3, 2}, {1, 3}};
  const TorchView c{"BFloat16Storage", "1", 8, 0, {8}, {1}};
  return pickle_of(dict_op({{"bert", dict_op({{"a", tensor_op(a)}, {"b", tensor_op(b)}})},
                            {"c", tensor_op(c)},
                            {"steps", int_op(3)}}));
}
std::string good_file(const ZipOptions& options = {}) {
  return torch_file_of(good_pickle(), {{"0", pattern(24)}, {"1", pattern(16, 9)}}, options);
}

class TorchFileTest : public ::testing::Test {
 protected:
  std::string refused(const std::string& bytes) {
    const std::string path = folder.write("f.pth", bytes);
    return message_of<InvalidArgument>([&] { TorchFile file(path); });
  }
  std::string refused_pickle(const std::string& ops) {
    return refused(torch_file_of("\x80\x02" + ops, {{"0", pattern(24)}}));
  }
  std::string refused_view(const TorchView& view) { return refused_pickle(tensor_op(view) + "."); }
  Folder folder{"torch"};
};

TEST_F(TorchFileTest, TensorsAreViewsOfStorages) {
  for (const ZipOptions& options :
       {ZipOptions{}, ZipOptions{0, 8, false, "a comment"}, ZipOptions{0, 0x0808, true, ""}}) {
    const TorchFile file(folder.write("f.pth", good_file(options)));
    EXPECT_EQ(file.names(), (std::vector<std::string>{"bert.a", "bert.b", "c"}));
    EXPECT_EQ(file.storages().size(), 2u);
    const auto arrays = file.load(file.names(), kHost);
    EXPECT_EQ(bytes_of(arrays.at("bert.a")), pattern(24));
    EXPECT_EQ(arrays.at("bert.b").shape(), (Dims{3, 2}));
    EXPECT_EQ(arrays.at("bert.b").strides(), (Dims{1, 3}));
    EXPECT_EQ(arrays.at("bert.b").buffer(), arrays.at("c").buffer());
    EXPECT_EQ(arrays.at("bert.b").offset_elems(), arrays.at("c").offset_elems() + 2);
    EXPECT_EQ(bytes_of(arrays.at("c")), pattern(16, 9));
  }
}

TEST_F(TorchFileTest, OneTensorAndEveryType) {
  const std::pair<const char*, std::size_t> types[] = {
      {"FloatStorage", 4}, {"DoubleStorage", 8}, {"HalfStorage", 2},        {"BFloat16Storage", 2},
      {"LongStorage", 8},  {"IntStorage", 4},    {"ShortStorage", 2},       {"CharStorage", 1},
      {"ByteStorage", 1},  {"BoolStorage", 1},   {"ComplexFloatStorage", 8}};
  for (const auto& [type, item] : types) {
    const TorchView view{type, "0", 3, 0, {3}, {1}};
    const TorchFile file(folder.write(
        "f.pt", torch_file_of(pickle_of(tensor_op(view)), {{"0", pattern(3 * item)}})));
    ASSERT_EQ(file.names(), (std::vector<std::string>{""}));
    EXPECT_EQ(bytes_of(file.load(file.names(), kHost).at("")), pattern(3 * item)) << type;
  }
}

TEST_F(TorchFileTest, TypedParametersListsAndOrderedDicts) {
  const std::string untyped = "(" + text_op("storage") +
                              global_op("torch.storage", "UntypedStorage") + text_op("0") +
                              text_op("cpu") + int_op(24) + "tQ";
  const std::string typed = global_op("torch._utils", "_rebuild_tensor_v3") + "(" + untyped +
                            int_op(0) + tuple_op({24}) + tuple_op({1}) + "\x89)" +
                            global_op("torch", "float8_e4m3fn") + "tR";
  const std::string parameter = global_op("torch._utils", "_rebuild_parameter") + "(" +
                                tensor_op({"FloatStorage", "1", 2, 1, {}, {}}) + "\x88N" + "tR";
  // OrderedDict with the attribute _metadata, as a state dict has.
  const std::string ordered = global_op("collections", "OrderedDict") + ")R(" + text_op("p") +
                              parameter + "u}" + text_op("_metadata") + "}sb";
  const std::string ops = "](" + typed + ordered + "Ne";
  const TorchFile file(
      folder.write("f.pt", torch_file_of(pickle_of(ops), {{"0", pattern(24)}, {"1", pattern(8)}})));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"0", "1.p"}));
  const auto arrays = file.load(file.names(), kHost);
  EXPECT_EQ(arrays.at("0").dtype(), DType::kFloat8E4M3FN);
  EXPECT_EQ(arrays.at("1.p").ndim(), 0);
}

TEST_F(TorchFileTest, CodeIsRefusedByName) {
  const std::pair<std::string, const char*> cases[] = {
      {global_op("os", "system") + text_op("touch hit") + "\x85R.", "'os.system'"},
      {global_op("posix", "system") + "(" + text_op("id") + "tR.", "'posix.system'"},
      {global_op("builtins", "eval") + "(" + text_op("1") + "tR.", "'builtins.eval'"},
      {global_op("__builtin__", "getattr") + ")R.", "'__builtin__.getattr'"},
      {global_op("torch", "load") + ")R.", "'torch.load'"},
      {global_op("torch._utils", "_rebuild_tensor_v2\x01") + ")R.", "_rebuild_tensor_v2?"},
      {text_op("os") + text_op("system") + "\x93)R.", "'os.system'"},
      {"(ios\nsystem\n.", "instruction INST"},
      {"(" + text_op("x") + "o.", "instruction OBJ"},
      {global_op("torch", "Size") + ")\x81.", "instruction NEWOBJ"},
      {global_op("torch", "Size") + ")}\x92.", "instruction NEWOBJ_EX"},
      {std::string("\x82\x01."), "instruction EXT1"},
      {"S'x'\n.", "instruction STRING"},
      {"Pabc\n.", "instruction PERSID"},
      {"\xff.", "instruction number 255"},
      {text_op("f") + ")R.", "REDUCE of what is not a function"},
      {global_op("torch", "FloatStorage") + ")R.", "a call of FloatStorage"},
      {"}}b.", "BUILD of what is not an OrderedDict"},
  };
  for (const auto& [ops, problem] : cases) EXPECT_CONTAINS(refused_pickle(ops), problem);
  EXPECT_CONTAINS(refused_pickle(cases[0].first), "nothing was imported or run");
}

TEST_F(TorchFileTest, BadPicklesAreRefusedByName) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "goes beyond its end at byte 2"},
      {"N", "goes beyond its end"},
      {"NN.", "with 2 values"},
      {"(N.", "1 marks left"},
      {"N.N", "ends at byte 4, expected byte 5"},
      {"\x80\x01N.", "protocol 1, expected 2 to 5"},
      {"h\x07.", "memo 7"},
      {"t.", "needs a mark"},
      {"\x85.", "which is not there"},
      {"(N\x86.", "which is not there"},
      {"](N.", "marks left"},
      {"NNa.", "items for what is not a list"},
      {"}(Nu.", "a key without a value"},
      {"X\xff\xff\xff\xff.", "goes beyond its end"},
      {"X\x01" + std::string(3, '\0') + "\xff.", "not UTF-8"},
      {"\x8d" + std::string(8, '\xff') + ".", "goes beyond its end"},
      {"\x8a\x09" + std::string(9, '\1') + ".", "more than 64 bits"},
      {"\x95" + std::string(8, '\xff') + ".", "a frame that goes beyond"},
      {"ctorch\nSize", "a name without an end"},
      {"r\xff\xff\xff\xff.", "memo key"},
      {"}()Nu.", "neither text nor an integer"},
      // A list that is an item of itself.
      {"]q\x01h\x01"
       "a.",
       "nested more than"},
  };
  for (const auto& [ops, problem] : cases) EXPECT_CONTAINS(refused_pickle(ops), problem);
}

TEST_F(TorchFileTest, SharedContainersDoNotMultiply) {
  // 28 lists, each with the one before it twice: 2**28 ways to the first.
  const auto memo = [](int i) { return le(static_cast<std::uint64_t>(i), 1); };
  std::string ops = "](]q" + memo(0);
  for (int i = 1; i <= 28; ++i) ops += "](h" + memo(i - 1) + "h" + memo(i - 1) + "eq" + memo(i);
  EXPECT_CONTAINS(refused_pickle(ops + "e."), "used too often");
}

TEST_F(TorchFileTest, BadTensorsAreRefusedByName) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const std::pair<TorchView, const char*> cases[] = {
      {{"FloatStorage", "9", 6, 0, {6}, {1}}, "'data/9', which is not there"},
      {{"FloatStorage", "0", 7, 0, {6}, {1}}, "a storage of 7 elements, expected 6"},
      {{"DoubleStorage", "0", 6, 0, {6}, {1}}, "a storage of 6 elements, expected 3"},
      {{"QInt8Storage", "0", 6, 0, {6}, {1}}, "'torch.QInt8Storage'"},
      {{"FloatStorage", "0", 6, 0, {7}, {1}}, "beyond its storage of 6 elements"},
      {{"FloatStorage", "0", 6, 1, {6}, {1}}, "beyond its storage"},
      {{"FloatStorage", "0", 6, 7, {0}, {1}}, "beyond its storage"},
      {{"FloatStorage", "0", 6, 0, {2, 3}, {4, 1}}, "beyond its storage"},
      {{"FloatStorage", "0", 6, 0, {huge, 4}, {0, 0}}, "beyond its storage"},
      {{"FloatStorage", "0", 6, 0, {huge, 4, 0}, {0, 0, 0}}, "beyond its storage"},
      {{"FloatStorage", "0", 6, 0, {3}, {huge}}, "beyond its storage"},
      {{"FloatStorage", "0", 6, huge, {3}, {1}}, "beyond its storage"},
      {{"FloatStorage", "0", 6, -1, {3}, {1}}, "an offset that is not an integer"},
      {{"FloatStorage", "0", 6, 0, {-3}, {1}}, "a size that is not an integer"},
      {{"FloatStorage", "0", 6, 0, {3}, {-1}}, "a stride that is not an integer"},
      {{"FloatStorage", "0", 6, 0, {3}, {1, 1}}, "strides (1, 1)"},
      {{"FloatStorage", "0", 6, 0, std::vector<std::int64_t>(33, 1), {1}}, "33 dimensions"},
  };
  for (const auto& [view, problem] : cases) {
    EXPECT_CONTAINS(refused_view(view), problem);
  }
  const std::string a = tensor_op({"FloatStorage", "0", 6, 0, {6}, {1}});
  const std::string i = tensor_op({"IntStorage", "0", 6, 0, {6}, {1}});
  EXPECT_CONTAINS(refused_pickle(dict_op({{"a", a}, {"a", a}}) + "."), "'a' is there twice");
  EXPECT_CONTAINS(refused_pickle(dict_op({{"a", a}, {"b", i}}) + "."), "which is F32 elsewhere");
  EXPECT_CONTAINS(refused_pickle(a + "(" + text_op("k") + "Nu."), "items are added to a");
}

TEST_F(TorchFileTest, BadArchivesAreRefusedByName) {
  const std::string good = good_file();
  EXPECT_CONTAINS(refused(""), "has 0 bytes");
  EXPECT_CONTAINS(refused("\x80\x02}."), "torch before 1.6");
  EXPECT_CONTAINS(refused("GGUF-----"), "no ZIP archive");
  EXPECT_CONTAINS(refused(good.substr(0, good.size() - 1)), "no ZIP end record");
  EXPECT_CONTAINS(refused(good.substr(0, good.size() / 2)), "no ZIP end record");
  EXPECT_CONTAINS(refused(good + "x"), "no ZIP end record");
  EXPECT_CONTAINS(refused(good_file({8, 0, false, ""})), "is compressed (method 8)");
  EXPECT_CONTAINS(refused(good_file({0, 1, false, ""})), "is encrypted");
  EXPECT_CONTAINS(refused(zip_of({{"a/data.pkl", "N."}, {"b/x", ""}})), "expected one");
  EXPECT_CONTAINS(refused(zip_of({{"data.pkl", "N."}})), "is in no folder");
  EXPECT_CONTAINS(refused(zip_of({{"a/x", "N."}})), "no entry data.pkl");
  EXPECT_CONTAINS(refused(zip_of({{"a/constants.pkl", "N."}})), "TorchScript");
  EXPECT_CONTAINS(refused(zip_of({{"a/x", "1"}, {"a/x", "2"}})), "'a/x' is there twice");
  EXPECT_CONTAINS(refused(zip_of({{"a/byteorder", "big"}, {"a/data.pkl", "N."}})), "'big'");
  const auto patched = [&](const std::string& find, std::size_t at, const std::string& bytes) {
    std::string file = good;
    return file.replace(file.rfind(find) + at, bytes.size(), bytes);
  };
  EXPECT_CONTAINS(refused(patched("PK\x01\x02", 42, le(0, 4))), "another local header");
  EXPECT_CONTAINS(refused(patched("PK\x01\x02", 42, le(1 << 30, 4))), "is said to be at byte");
  EXPECT_CONTAINS(refused(patched("PK\x01\x02", 24, le(1 << 30, 4))), "stored bytes");
  EXPECT_CONTAINS(refused(patched("PK\x05\x06", 10, le(9, 2))), "several parts");
  EXPECT_CONTAINS(refused(patched("PK\x05\x06", 12, le(9, 4))), "the directory is said to be");
  EXPECT_THROW(TorchFile("/nonexistent/f.pth"), FileError);
}

// --- mutated files ---
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t limit) { return static_cast<std::size_t>(random_() % limit); }

  void change(std::string& bytes) {
    if (bytes.empty()) bytes = "x";
    const std::size_t at = below(bytes.size());
    switch (below(6)) {
      case 0: bytes[at] = static_cast<char>(random_()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 2: bytes.erase(at, 1 + below(8)); break;
      case 3: bytes.insert(at, bytes.substr(below(bytes.size()), below(40))); break;
      case 4: bytes.insert(at, 1, kOpcodes[below(sizeof kOpcodes - 1)]); break;
      default: bytes.resize(below(bytes.size() + 1)); break;
    }
  }

 private:
  static constexpr char kOpcodes[] =
      "()]}.NQRbacehjqrstuKMJX\x80\x85\x86\x87\x88\x89\x8a\x8c\x93\x94";
  std::mt19937_64 random_;
};

// True: it loaded, with the bytes that its views name.
bool check(const Folder& folder, const std::string& bytes) {
  const std::string path = folder.write("f.pth", bytes);
  try {
    const TorchFile file(path);
    const auto arrays = file.load(file.names(), kHost);
    for (const TorchTensor& tensor : file.tensors()) {
      const TensorInfo& storage = file.storages()[tensor.storage];
      const Array& array = arrays.at(tensor.name);
      if (array.size() == 0) continue;
      const std::size_t item = itemsize(array.dtype());
      // The first element, and the last.
      std::int64_t last = tensor.offset;
      for (int i = 0; i < tensor.shape.size(); ++i)
        last += (tensor.shape[i] - 1) * tensor.strides[i];
      for (const std::int64_t elem : {tensor.offset, last}) {
        const auto from =
            static_cast<std::size_t>(storage.offset) + static_cast<std::size_t>(elem) * item;
        const auto* data = static_cast<const char*>(array.data()) +
                           (elem - tensor.offset) * static_cast<std::int64_t>(item);
        EXPECT_EQ(std::string(data, item), bytes.substr(from, item));
      }
    }
    return true;
  } catch (const InvalidArgument& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("torch file: ")) << error.what();
    return false;
  }
}

void run(std::uint64_t seed, unsigned count) {
  SCOPED_TRACE(seed);
  const Folder folder("torchfuzz");
  Mutator mutator(seed);
  unsigned num_loaded = 0;
  for (unsigned i = 0; i < count && !::testing::Test::HasFailure(); ++i) {
    std::string bytes;
    if (mutator.below(2) == 0) {  // inside an archive that is right
      std::string pickle = good_pickle();
      for (std::size_t n = 1 + mutator.below(3); n > 0; --n) mutator.change(pickle);
      bytes = torch_file_of(pickle, {{"0", pattern(24)}, {"1", pattern(16)}});
    } else {
      bytes = good_file({0, 0, mutator.below(2) == 0, ""});
      for (std::size_t n = 1 + mutator.below(3); n > 0; --n) mutator.change(bytes);
    }
    if (check(folder, bytes)) ++num_loaded;
  }
  EXPECT_GT(num_loaded, 0u);  // mutations that do no harm
  EXPECT_LT(num_loaded, count / 2);
}

TEST(TorchFileFuzz, TheSameFiles) { run(20260102, rounds(10'000)); }

// A new seed in every run; GPK_FUZZ_SEED repeats one.
TEST(TorchFileFuzz, NewFiles) {
  const char* seed = std::getenv("GPK_FUZZ_SEED");
  const bool given = seed != nullptr && *seed >= '0' && *seed <= '9';
  run(given ? std::strtoull(seed, nullptr, 10) : std::random_device{}(), rounds(1'000));
}

}  // namespace
}  // namespace gpk::llm
