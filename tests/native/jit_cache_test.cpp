#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#endif

#include "jit/cache_entry.h"
#include "jit/digest.h"
#include "jit/disk_cache.h"
#include "jit/include_scan.h"
#include "temp_folder.h"

namespace gpk::jit {
namespace {

Nvrtc nvrtc_13(int minor) {
  Nvrtc nvrtc;
  nvrtc.major = 13;
  nvrtc.minor = minor;
  return nvrtc;
}

namespace fs = std::filesystem;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::string key_of(int i) { return sha256_hex(std::to_string(i)); }

CompiledImage image_of(int i, std::size_t num_bytes = 200) {
  CompiledImage image;
  image.kind = i % 2 == 0 ? CompiledImage::Kind::kCubin : CompiledImage::Kind::kPtx;
  image.bytes.assign(num_bytes, static_cast<char>(i));
  image.lowered_names = {{"f<float>", "_Z1fIfEvv"}, {"g", ""}};
  image.log = "warning " + std::to_string(i);
  return image;
}

void expect_same(const std::optional<CompiledImage>& got, const CompiledImage& want) {
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->kind, want.kind);
  EXPECT_EQ(got->bytes, want.bytes);
  EXPECT_EQ(got->lowered_names, want.lowered_names);
  EXPECT_EQ(got->log, want.log);
}

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

class CacheTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = (root_ / "a" / "cache").string(); }
  std::size_t num_files() const {
    std::error_code ec;
    fs::directory_iterator it(folder_, ec);
    return ec ? 0 : static_cast<std::size_t>(std::distance(it, fs::directory_iterator()));
  }
  fs::path entry_file(const std::string& key) const { return fs::path(folder_) / (key + ".gpkc"); }

  const TempFolder temp_{"cache"};
  const fs::path& root_ = temp_.path();
  std::string folder_;
};

TEST_F(CacheTest, StoresAndLoads) {
  DiskCache cache(folder_, kMiB);
  EXPECT_FALSE(cache.load(key_of(1)));
  EXPECT_FALSE(fs::exists(root_)) << "a miss must not make the folder";
  EXPECT_EQ(cache.stat().num_entries, 0u);
  cache.store(key_of(1), image_of(1));
  cache.store(key_of(2), image_of(2));
  expect_same(cache.load(key_of(1)), image_of(1));
  DiskCache other(folder_, kMiB);
  expect_same(other.load(key_of(2)), image_of(2));
  EXPECT_EQ(other.stat().num_entries, 2u);
  EXPECT_GT(other.stat().total_bytes, 400u);
  EXPECT_EQ(num_files(), 2u) << "no temporary file is left";
  write_text(fs::path(folder_) / "mine.txt", "not ours");
  EXPECT_EQ(other.clear(), 2u);
  EXPECT_EQ(num_files(), 1u);
  EXPECT_FALSE(cache.load(key_of(1)));
}

TEST_F(CacheTest, KeysThatAreNoDigestsAreMisses) {
  DiskCache cache(folder_, kMiB);
  for (const char* key :
       {"", "abc", "../../../../../../../../../../../../../../../../../../etc/pass"}) {
    cache.store(key, image_of(1));
    EXPECT_FALSE(cache.load(key));
  }
  EXPECT_FALSE(fs::exists(root_));
}

TEST_F(CacheTest, AnyFlippedBitIsAMiss) {
  const std::string entry = write_entry(key_of(1), image_of(1, 40));
  ASSERT_TRUE(read_entry(key_of(1), entry));
  EXPECT_FALSE(read_entry(key_of(2), entry)) << "an entry under another key's name";
  for (std::size_t bit = 0; bit < entry.size() * 8; ++bit) {
    std::string bad = entry;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(read_entry(key_of(1), bad)) << bit;
  }
  EXPECT_FALSE(read_entry(key_of(1), entry + "x"));
}

TEST_F(CacheTest, CorruptFilesAreRemovedAndReplaced) {
  DiskCache cache(folder_, kMiB);
  const std::string entry = write_entry(key_of(1), image_of(1, 40));
  const fs::path file = entry_file(key_of(1));
  for (std::size_t size = 0; size < entry.size(); ++size) {
    write_text(file, entry.substr(0, size));
    EXPECT_FALSE(cache.load(key_of(1))) << size;
    EXPECT_FALSE(fs::exists(file)) << size;
  }
  for (std::size_t byte = 0; byte < entry.size(); ++byte) {
    std::string bad = entry;
    bad[byte] = static_cast<char>(bad[byte] ^ 0x10);
    write_text(file, bad);
    EXPECT_FALSE(cache.load(key_of(1))) << byte;
    EXPECT_FALSE(fs::exists(file)) << byte;
  }
  cache.store(key_of(1), image_of(1));
  expect_same(cache.load(key_of(1)), image_of(1));
}

TEST_F(CacheTest, FolderThatCannotBeMadeMeansMemoryOnly) {
  // Below a regular file, so that it holds for root too.
  write_text(root_ / "file", "x");
  DiskCache cache((root_ / "file" / "cache").string(), kMiB);
  cache.store(key_of(1), image_of(1));
  expect_same(cache.load(key_of(1)), image_of(1));
  cache.store(key_of(2), image_of(2));
  expect_same(cache.load(key_of(2)), image_of(2));
  EXPECT_EQ(cache.stat().num_entries, 0u);
  EXPECT_EQ(cache.clear(), 0u);
  EXPECT_FALSE(cache.load(key_of(1)));
  DiskCache nowhere("", kMiB);
  nowhere.store(key_of(1), image_of(1));
  expect_same(nowhere.load(key_of(1)), image_of(1));
}

TEST_F(CacheTest, OldestEntriesGoFirst) {
  const std::uint64_t entry_bytes = write_entry(key_of(0), image_of(0, 1000)).size();
  DiskCache cache(folder_, entry_bytes * 5);
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 5; ++i) {
    cache.store(key_of(i), image_of(i, 1000));
    fs::last_write_time(entry_file(key_of(i)), now - std::chrono::minutes(100 - i));
  }
  EXPECT_TRUE(cache.load(key_of(0))) << "a load makes it recent";
  EXPECT_GT(fs::last_write_time(entry_file(key_of(0))), now - std::chrono::minutes(2));
  cache.store(key_of(5), image_of(5, 1000));
  EXPECT_FALSE(cache.load(key_of(1)));
  EXPECT_TRUE(cache.load(key_of(0)));
  EXPECT_TRUE(cache.load(key_of(5)));
  EXPECT_LE(cache.stat().total_bytes, entry_bytes * 5);
  cache.store(key_of(6), image_of(6, 100000));
  EXPECT_FALSE(fs::exists(entry_file(key_of(6)))) << "larger than the whole cache";
}

TEST_F(CacheTest, ThreadsRace) {
  DiskCache cache(folder_, kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        if (const auto hit = cache.load(key_of(i))) expect_same(hit, image_of(i));
        cache.store(key_of(i), image_of(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 20; ++i) expect_same(cache.load(key_of(i)), image_of(i));
  EXPECT_EQ(num_files(), 20u);
}

#ifndef _WIN32
int child_status(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST_F(CacheTest, ProcessesRaceOnAnEmptyFolder) {
  std::vector<pid_t> children;
  for (int p = 0; p < 16; ++p) {
    const pid_t pid = fork();
    if (pid == 0) {
      DiskCache cache(folder_, kMiB);
      int bad = 0;
      for (int i = 0; i < 10; ++i) {
        cache.store(key_of(i), image_of(i, 20000));
        const auto hit = cache.load(key_of(i));
        bad += !hit || hit->bytes != image_of(i, 20000).bytes ? 1 : 0;
      }
      _exit(bad);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) EXPECT_EQ(child_status(pid), 0);
  EXPECT_EQ(num_files(), 10u);
  DiskCache cache(folder_, kMiB);
  for (int i = 0; i < 10; ++i) expect_same(cache.load(key_of(i)), image_of(i, 20000));
}

// A file size limit cuts the write short as a full disk does.
TEST_F(CacheTest, ShortWriteLeavesNoEntry) {
  DiskCache(folder_, kMiB).store(key_of(1), image_of(1));
  const pid_t pid = fork();
  if (pid == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    DiskCache cache(folder_, kMiB);
    cache.store(key_of(2), image_of(2, 50000));
    _exit(cache.load(key_of(2)) ? 0 : 1);
  }
  EXPECT_EQ(child_status(pid), 0) << "it stays usable from memory";
  EXPECT_EQ(num_files(), 1u);
  EXPECT_FALSE(DiskCache(folder_, kMiB).load(key_of(2)));
}

TEST_F(CacheTest, ReadOnlyFolderStillServesHits) {
  if (geteuid() == 0) GTEST_SKIP() << "root writes everywhere";
  DiskCache(folder_, kMiB).store(key_of(1), image_of(1));
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  DiskCache cache(folder_, kMiB);
  expect_same(cache.load(key_of(1)), image_of(1));
  cache.store(key_of(2), image_of(2));
  expect_same(cache.load(key_of(2)), image_of(2));
  fs::permissions(folder_, fs::perms::owner_all);
  EXPECT_EQ(num_files(), 1u);
}
#endif

TEST_F(CacheTest, KeyCoversEveryField) {
  CompileRequest base;
  base.name = "a.cu";
  base.source = "__global__ void f() {}";
  base.sm = 90;
  std::vector<std::string> keys{cache_key(base, nvrtc_13(0))};
  EXPECT_EQ(keys[0].size(), 64u);
  EXPECT_EQ(keys[0], cache_key(base, nvrtc_13(0)));
  keys.push_back(cache_key(base, nvrtc_13(1)));
  const auto add = [&](auto change) {
    CompileRequest request = base;
    change(request);
    keys.push_back(cache_key(request, nvrtc_13(0)));
  };
  add([](CompileRequest& r) { r.name = "b.cu"; });
  add([](CompileRequest& r) { r.source += " "; });
  add([](CompileRequest& r) { r.sm = 89; });
  add([](CompileRequest& r) { r.want_ptx = true; });
  add([](CompileRequest& r) { r.options = {"-DX"}; });
  add([](CompileRequest& r) { r.options = {"-D", "X"}; });
  add([](CompileRequest& r) { r.headers = {{"h", "1"}}; });
  add([](CompileRequest& r) { r.headers = {{"h", "2"}}; });
  add([](CompileRequest& r) { r.name_expressions = {"f"}; });
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::unique(keys.begin(), keys.end()), keys.end());
}

TEST_F(CacheTest, KeyFollowsIncludesOnDisk) {
  write_text(root_ / "inc" / "outer.h", "#include \"sub/inner.h\"\n");
  write_text(root_ / "inc" / "sub" / "inner.h", "#include \"deep.h\"\n#include \"../outer.h\"\n");
  write_text(root_ / "inc" / "sub" / "deep.h", "int x;\n");
  write_text(root_ / "inc" / "pre.h", "int p;\n");
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"-I" + (root_ / "inc").string()},
        {"-I", (root_ / "inc").string()},
        {"-I " + (root_ / "inc").string()},
        {"--include-path=" + (root_ / "inc").string()},
        {"--include-path", (root_ / "inc").string()}}) {
    CompileRequest request{"a.cu", "#include <outer.h>\n", {}, options, {}, 90, false};
    EXPECT_EQ(include_closure(request, {}).files.size(), 3u) << options[0];
    EXPECT_FALSE(include_closure(request, {}).needs_folder);
    write_text(root_ / "inc" / "sub" / "deep.h", "int x;\n");
    const std::string before = cache_key(request, nvrtc_13(0));
    write_text(root_ / "inc" / "sub" / "deep.h", "int y;\n");
    EXPECT_NE(cache_key(request, nvrtc_13(0)), before);
    request.options.push_back("--pre-include=" + (root_ / "inc" / "pre.h").string());
    EXPECT_EQ(include_closure(request, {}).files.size(), 4u);
    EXPECT_TRUE(include_closure(request, (root_ / "inc").string()).files.empty());
  }
}

TEST(IncludeScan, ReadsLines) {
  const auto lines = scan_includes(
      "#include <a.h>\n  # include\t\"b/c.h\" // x\n// #include <no.h>\n/* #include <no.h>\n*/"
      "#include \\\n \"d.h\"\n#include/**/\"e.h\"\nint include;\n#include MACRO\n");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].name, "a.h");
  EXPECT_FALSE(lines[0].quoted);
  EXPECT_EQ(lines[1].name, "b/c.h");
  EXPECT_TRUE(lines[1].quoted);
  EXPECT_EQ(lines[2].name, "d.h");
  EXPECT_EQ(lines[3].name, "e.h");
  EXPECT_EQ(lines[4].name, "");
  CompileRequest request{"a.cu", "#include \"h.h\"\n", {{"h.h", "#include X\n"}}, {}, {}, 90,
                         false};
  EXPECT_FALSE(include_closure(request, {}).complete);
  request.headers[0].text = "int x;\n";
  EXPECT_TRUE(include_closure(request, {}).complete);
  EXPECT_FALSE(include_closure(request, {}).needs_folder);
}

// Removing splices one by one would move the rest of the text for each: hours.
TEST(IncludeScan, ReadsAMillionContinuedLines) {
  std::string source = "#include \\\n";
  while (source.size() < 10'000'000) source += source.size() % 2 == 0 ? " \\\n" : "\\\r\n";
  source += "\"far.h\"\n#include <b.h>\n";
  const auto start = std::chrono::steady_clock::now();
  const auto lines = scan_includes(source);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].name, "far.h");
  EXPECT_EQ(lines[1].name, "b.h");
}

}  // namespace
}  // namespace gpk::jit
