// The rules of the format, one file, the writer.
#include "base/error.h"
#include "base/file_error.h"
#include "device/host_copy.h"
#include "fake_driver/core_fixture.h"
#include "llm/safetensors_file.h"
#include "llm/safetensors_writer.h"
#include "llm_fixture.h"

namespace gpk::llm {
namespace {

SafeTensorsHeader parse(const std::string& header, std::size_t data_bytes) {
  return parse_safetensors_header(header, 8 + header.size() + data_bytes, "x");
}

// The entry of a tensor "a".
std::string one(const std::string& fields) { return "{\"a\":{" + fields + "}}"; }

TEST(SafeTensorsHeaderTest, Tensors) {
  const SafeTensorsHeader header = parse(
      R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},"empty":{"dtype":"I8","shape":[0,7],)"
      R"("data_offsets":[4,4]},"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"scalar":)"
      R"({"dtype":"U16","shape":[],"data_offsets":[28,30],"extra":1},"__metadata__":{"k":"v"}}   )",
      30);
  ASSERT_EQ(header.tensors.size(), 4u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "empty");
  EXPECT_EQ(header.tensors[2].name, "b");
  EXPECT_EQ(header.tensors[3].name, "scalar");
  EXPECT_EQ(header.tensors[2].dtype, DType::kFloat32);
  EXPECT_EQ(header.tensors[2].shape, (Dims{2, 3}));
  EXPECT_EQ(header.tensors[2].size_bytes, 24u);
  EXPECT_EQ(header.tensors[3].shape.size(), 0);
  EXPECT_EQ(header.metadata.at("k"), "v");
}

TEST(SafeTensorsHeaderTest, EveryDtype) {
  const std::pair<const char*, std::size_t> types[] = {
      {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
      {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
      {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64}};
  for (const auto& [type, bits] : types) {
    const std::size_t bytes = 4 * bits / 8;
    const auto header =
        parse(one("\"dtype\":\"" + std::string(type) + "\",\"shape\":[4],\"data_offsets\":[0," +
                  std::to_string(bytes) + "]"),
              bytes);
    EXPECT_EQ(header.tensors[0].stored_type, type);
  }
}

TEST(SafeTensorsHeaderTest, AnUnknownDtypeIsInspectedAndRefusedAtLoad) {
  const auto header = parse(one(R"("dtype":"F3","shape":[4],"data_offsets":[0,5])"), 5);
  EXPECT_EQ(header.tensors[0].stored_type, "F3");
  const std::string message =
      message_of<InvalidArgument>([&] { loadable_dtype(header.tensors[0], "x"); });
  EXPECT_CONTAINS(message, "x: tensor 'a' has dtype 'F3', which cannot be loaded");
}

struct BadHeader {
  const char* header;
  std::size_t data_bytes;
  const char* problem;
};

TEST(SafeTensorsHeaderTest, BadHeadersAreRefusedByName) {
  const BadHeader cases[] = {
      {"[]", 0, "does not begin with '{'"},
      {" {}", 0, "does not begin with '{'"},
      {"{", 0, "line 1, column 2"},
      {R"({"a":1})", 0, "tensor 'a' is an integer, expected an object"},
      {R"({"a":{}})", 0, "tensor 'a' has no dtype"},
      {R"({"a":{"dtype":"F32"}})", 0, "tensor 'a' has no shape"},
      {R"({"a":{"dtype":"F32","shape":[]}})", 0, "tensor 'a' has no data_offsets"},
      {R"({"a":{"dtype":3,"shape":[],"data_offsets":[0,4]}})", 4, "an integer as dtype"},
      {R"({"a":{"dtype":"F32","shape":4,"data_offsets":[0,4]}})", 4, "an integer as shape"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "whose size 0"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "whose size 0"},
      {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "whose size 0"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, "has 1 data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,-4]}})", 4, "not integers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}})", 4, "not integers"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "increasing pair up to 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4, "increasing pair up to 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615]}})",
       4, "increasing pair up to 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "has 4 bytes, expected 8"},
      {R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "expected whole bytes"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]}})", 4,
       "more than 2**63 - 1 elements"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4,0],"data_offsets":[0,0]}})", 0,
       "more than 2**63 - 1 elements"},
      {R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,8]}})", 8,
       "has 8 bytes, expected"},
      {R"({"a":{"dtype":"F64","shape":[0,0],"data_offsets":[0,8]}})", 8, "expected 0 bytes"},
      {R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],)"
       R"("data_offsets":[0,1]}})",
       1, "has 33 dimensions"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2, "there is a hole"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 2, "the tensors end at"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],)"
       R"("data_offsets":[1,3]}})",
       3, "'b' begins at byte 1 of the data, expected 2: it overlaps another"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],)"
       R"("data_offsets":[2,3]}})",
       3, "'b' begins at byte 2 of the data, expected 1: there is a hole"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],)"
       R"("data_offsets":[0,1]}})",
       1, "the name \"a\" occurs twice"},
      {R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1, "occurs twice"},
      {R"({"__metadata__":3})", 0, "__metadata__ is an integer"},
      {R"({"__metadata__":{"a":3}})", 0, "__metadata__ has an integer for 'a'"},
      {"{}", 1, "the tensors end at byte 10 of the file, expected its end at 11"},
  };
  for (const BadHeader& each : cases) {
    SCOPED_TRACE(each.header);
    const std::string message =
        message_of<InvalidArgument>([&] { parse(each.header, each.data_bytes); });
    EXPECT_CONTAINS(message, std::string("safetensors: x: "));
    EXPECT_CONTAINS(message, std::string(each.problem));
  }
}

class SafeTensorsTest : public CoreTest {
 protected:
  ~SafeTensorsTest() override = default;
  Folder folder{"safetensors"};
};

TEST_F(SafeTensorsTest, AFile) {
  const std::string data = pattern(12);
  const std::string path = folder.write(
      "a", file_of(R"({"a":{"dtype":"U8","shape":[3,4],"data_offsets":[0,12]}})", data));
  const SafeTensorsFile file(path);
  ASSERT_NE(file.find("a"), nullptr);
  EXPECT_EQ(file.find("b"), nullptr);
  const TensorInfo& a = *file.find("a");
  std::string read(12, '\0');
  file.file().read(a.offset, read.data(), read.size());
  EXPECT_EQ(read, data);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.file().map() + a.offset), 12), data);
  EXPECT_THROW(file.file().read(a.offset + 1, read.data(), 12), Error);  // past the end
}

TEST_F(SafeTensorsTest, BadFiles) {
  const auto problem = [](const std::string& path) {
    return message_of<InvalidArgument>([&] { const SafeTensorsFile file(path); });
  };
  const auto write = [&](const std::string& bytes) { return folder.write("bad", bytes); };
  EXPECT_CONTAINS(problem(write("")), "the file has 0 bytes, expected at least 8");
  EXPECT_CONTAINS(problem(write("1234567")), "the file has 7 bytes");
  EXPECT_CONTAINS(problem(write(std::string(8, '\xFF'))),
                  "the header has 18446744073709551615 bytes, expected at most 100000000");
  EXPECT_CONTAINS(problem(write(file_of("{}").replace(0, 1, "\x03"))),
                  "the header has 3 bytes, expected at most 2, what the file has");
  EXPECT_CONTAINS(problem(write(file_of(""))), "does not begin with '{'");
  EXPECT_NO_THROW(SafeTensorsFile(write(file_of("{}"))));
  EXPECT_NO_THROW(SafeTensorsFile(write(file_of("{}      "))));
  const auto missing =
      thrown<FileError>([&] { const SafeTensorsFile file(folder.path("missing")); });
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->code(), ENOENT);
  EXPECT_EQ(missing->path(), folder.path("missing"));
  const auto directory = thrown<FileError>([&] { const SafeTensorsFile file(folder.path("")); });
  ASSERT_TRUE(directory);
  EXPECT_EQ(directory->code(), EISDIR);
}

Array array_of(const std::string& bytes, const Dims& shape, DType dtype, Device device) {
  return device::from_host(bytes.data(), shape, dtype, device);
}

TEST_F(SafeTensorsTest, WriterAndReaderAgree) {
  for (const Device device : {kCpu, kGpu}) {
    const std::vector<std::pair<std::string, Array>> tensors = {
        {"b", array_of(pattern(6, 1), {3}, DType::kBFloat16, device)},
        {"a\"\n\xC3\xA9", array_of(pattern(5, 2), {5}, DType::kInt8, device)},
        {"c", array_of(pattern(24, 3), {1, 3, 1}, DType::kFloat64, device)},
        {"scalar", array_of(pattern(4, 4), {}, DType::kFloat32, device)},
        {"empty", Array::empty({0, 2}, DType::kFloat32, device)}};
    const std::string path = folder.path("out.safetensors");
    save_safetensors(path, tensors, {{"format", "pt"}, {"k", "\"v\""}});
    const SafeTensorsFile file(path);
    EXPECT_EQ(file.metadata().at("k"), "\"v\"");
    ASSERT_EQ(file.tensors().size(), 5u);
    EXPECT_EQ(file.tensors()[0].name, "c");  // the widest first
    EXPECT_EQ(file.tensors()[0].offset % 8, 0u);
    for (const auto& [name, array] : tensors) {
      SCOPED_TRACE(name);
      const TensorInfo* tensor = file.find(name);
      ASSERT_NE(tensor, nullptr);
      EXPECT_EQ(tensor->dtype, array.dtype());
      EXPECT_EQ(tensor->shape, array.shape());
      ASSERT_EQ(tensor->size_bytes, array.nbytes());
      std::string written(array.nbytes(), '\0');
      file.file().read(tensor->offset, written.data(), written.size());
      std::string expected(array.nbytes(), '\0');
      device::to_host(array, expected.data());
      EXPECT_EQ(written, expected);
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("")), {}), 1);
  }
}

TEST_F(SafeTensorsTest, TheWriterRefusesByName) {
  const Array x = array_of(pattern(4), {4}, DType::kUInt8, kCpu);
  const Array complex = Array::empty({1}, DType::kComplex128, kCpu);
  const auto problem = [&](const std::vector<std::pair<std::string, Array>>& tensors) {
    return message_of<InvalidArgument>([&] { save_safetensors(folder.path("x"), tensors); });
  };
  EXPECT_CONTAINS(problem({{"a", x}, {"a", x}}), "two tensors are named 'a'");
  EXPECT_CONTAINS(problem({{"__metadata__", x}}), "'__metadata__', which is reserved");
  EXPECT_CONTAINS(problem({{"\xFF", x}}), "not UTF-8");
  EXPECT_CONTAINS(problem({{"a", complex}}), "'a' has dtype complex128");
  EXPECT_FALSE(std::filesystem::exists(folder.path("x")));
  const auto missing =
      thrown<FileError>([&] { save_safetensors(folder.path("no/x"), {{"a", x}}); });
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->code(), ENOENT);
}

}  // namespace
}  // namespace gpk::llm
