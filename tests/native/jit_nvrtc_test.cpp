#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "core/config.h"
#include "jit/include_folder.h"
#include "jit/missing_header.h"
#include "jit/nvrtc.h"
#include "jit/nvrtc_paths.h"
#include "temp_folder.h"

namespace gpk::jit {
namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void make_headers(const fs::path& folder, const std::string& version) {
  write_text(folder / "cuda_fp16.h", "");
  write_text(folder / "cuda.h",
             "// #define CUDA_VERSION 1\n#define  CUDA_VERSION " + version + "\n");
}

class NvrtcTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override {
#ifndef _WIN32
    unsetenv("PYGPUKIT_NVRTC_PATH");
#endif
    Config::reset_for_testing();
    set_nvrtc_for_testing(nullptr);
    set_package_roots({});
  }
  const TempFolder temp_{"nvrtc"};
  const fs::path& root_ = temp_.path();
};

#ifndef _WIN32
void use_path(const std::string& path) {
  setenv("PYGPUKIT_NVRTC_PATH", path.c_str(), 1);
  Config::reset_for_testing();
  set_nvrtc_for_testing(nullptr);
}

TEST_F(NvrtcTest, WrongPathHidesIt) {
  find_nvrtc();  // loaded or not, the path alone counts
  use_path("/no/such/libnvrtc.so");
  const NvrtcSearch& search = find_nvrtc();
  EXPECT_EQ(search.nvrtc, nullptr);
  ASSERT_EQ(search.tried.size(), 1u);
  EXPECT_TRUE(search.tried[0].starts_with("/no/such/libnvrtc.so: ")) << search.tried[0];
  try {
    nvrtc();
    FAIL();
  } catch (const NvrtcError& e) {
    const std::string text = e.what();
    EXPECT_EQ(e.code(), NvrtcCode::kNotLoaded);
    EXPECT_TRUE(text.starts_with("NVRTC JIT compiler not available")) << text;
    EXPECT_NE(text.find("/no/such/libnvrtc.so"), std::string::npos);
    EXPECT_TRUE(text.ends_with("pip install pygpukit[jit]")) << text;
  }
}

TEST_F(NvrtcTest, FileThatIsNoLibrary) {
  write_text(root_ / "lib" / "libnvrtc.so.12", "text");
  write_text(root_ / "lib" / "libnvrtc-builtins.so.12.8", "text");
  use_path((root_ / "lib").string());
  EXPECT_EQ(find_nvrtc().nvrtc, nullptr);
  ASSERT_EQ(find_nvrtc().tried.size(), 1u);
  EXPECT_NE(find_nvrtc().tried[0].find("libnvrtc.so.12: "), std::string::npos);
  use_path(root_.string());
  EXPECT_EQ(find_nvrtc().tried.size(), 2u) << "the folder itself, and the file in its lib";
}

TEST_F(NvrtcTest, LibraryWithoutTheFunctions) {
  use_path("libc.so.6");
  EXPECT_EQ(find_nvrtc().nvrtc, nullptr);
  EXPECT_NE(find_nvrtc().tried.at(0).find("has no nvrtcVersion"), std::string::npos);
}

TEST_F(NvrtcTest, FoundLibraryIsAFileAndCanBeNamed) {
  const NvrtcSearch& search = find_nvrtc();
  if (search.nvrtc == nullptr) GTEST_SKIP() << "no NVRTC here";
  const std::string path = search.nvrtc->path;
  EXPECT_TRUE(fs::is_regular_file(path)) << path;
  EXPECT_GE(search.nvrtc->major, 11);
  use_path(path);
  ASSERT_NE(find_nvrtc().nvrtc, nullptr);
  EXPECT_EQ(find_nvrtc().tried.size(), 1u);
  use_path(fs::path(path).parent_path().string());
  EXPECT_NE(find_nvrtc().nvrtc, nullptr);
}
#endif

TEST_F(NvrtcTest, RacingSearchesAgree) {
  set_nvrtc_for_testing(nullptr);
  set_package_roots([] { return std::vector<std::string>{"/no/such/root"}; });
  std::vector<const NvrtcSearch*> found(8);
  std::vector<std::thread> threads;
  for (auto& slot : found) threads.emplace_back([&slot] { slot = &find_nvrtc(); });
  for (std::thread& thread : threads) thread.join();
  for (const NvrtcSearch* search : found) EXPECT_EQ(search, found[0]);
}

#ifndef _WIN32
TEST_F(NvrtcTest, PipFoldersNewestMajorFirst) {
  const fs::path a = root_ / "a" / "nvidia";
  const fs::path b = root_ / "b" / "nvidia";
  write_text(a / "cuda_nvrtc" / "lib" / "libnvrtc.so.12", "");
  write_text(a / "cublas" / "lib" / "libcublas.so.12", "");
  write_text(b / "cu13" / "lib" / "libnvrtc.so.13", "");
  write_text(b / "cu13" / "lib" / "libnvrtc.alt.so.13", "");
  write_text(b / "cu13" / "lib" / "libnvrtc-builtins.so.13.0", "");
  write_text(b / "old" / "lib64" / "libnvrtc.so.11.2", "");
  std::vector<std::string> tried;
  const auto folders = pip_library_folders(
      {(root_ / "a").string(), (root_ / "none").string(), (root_ / "b").string()});
  EXPECT_EQ(nvrtc_files(folders, &tried),
            (std::vector<std::string>{(b / "cu13" / "lib" / "libnvrtc.so.13").string(),
                                      (a / "cuda_nvrtc" / "lib" / "libnvrtc.so.12").string(),
                                      (b / "old" / "lib64" / "libnvrtc.so.11.2").string()}));
  EXPECT_TRUE(tried.empty());
  EXPECT_TRUE(nvrtc_files(prefix_library_folders((root_ / "gone").string()), &tried).empty());
  EXPECT_EQ(tried.size(), 1u);
}
#endif

TEST_F(NvrtcTest, IncludeFolderOfTheSameVersion) {
  const fs::path pip = root_ / "site";
  make_headers(pip / "nvidia" / "cuda_runtime" / "include", "12080");
  make_headers(root_ / "toolkit" / "include", "13000");
  make_headers(root_ / "other" / "targets" / "x86_64-linux" / "include", "13020");
  const std::string library = (pip / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12").string();
  write_text(library, "");
  const auto find = [&](int major, int minor) {
    return find_include_folder({library,
                                {pip.string()},
                                {(root_ / "toolkit").string(), (root_ / "other").string()},
                                major,
                                minor});
  };
  EXPECT_EQ(find(12, 8), (pip / "nvidia" / "cuda_runtime" / "include").string());
  EXPECT_EQ(find(13, 0), (root_ / "toolkit" / "include").string());
  EXPECT_EQ(find(13, 2), (root_ / "other" / "targets" / "x86_64-linux" / "include").string());
  EXPECT_EQ(find(13, 1), (root_ / "toolkit" / "include").string()) << "older headers of the major";
  EXPECT_EQ(find(12, 4), "") << "newer headers than the compiler";
  EXPECT_EQ(find(14, 0), "");
  EXPECT_EQ(header_version((root_ / "toolkit" / "include").string()), std::pair(13, 0));
  EXPECT_FALSE(header_version(root_.string()));
}

TEST(MissingHeader, SaysWhatToInstall) {
  Nvrtc nvrtc;
  nvrtc.major = 13;
  const std::string log = "a.cu(1): catastrophic error: could not open source file \"cuda_fp16.h\"";
  EXPECT_NE(missing_header_advice(log, nvrtc).find("pip install \"nvidia-cuda-runtime==13.0.*\""),
            std::string::npos);
  nvrtc.major = 12;
  nvrtc.minor = 8;
  EXPECT_NE(missing_header_advice(log, nvrtc).find("\"nvidia-cuda-runtime-cu12==12.8.*\""),
            std::string::npos);
  EXPECT_EQ(missing_header_advice("cannot open source file \"mine.h\"", nvrtc), "");
  EXPECT_EQ(missing_header_advice("error: expected a \";\"", nvrtc), "");
  nvrtc.include_folder = "/x";
  EXPECT_EQ(missing_header_advice(log, nvrtc), "") << "the headers are there";
  EXPECT_NE(missing_header_advice("cannot open source file \"cuda/std/array\"", nvrtc)
                .find("nvidia-cuda-cccl-cu12==12.8.*"),
            std::string::npos);
}

}  // namespace
}  // namespace gpk::jit
