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
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#endif

#include "core/private_folder.h"
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

// A cache on which others may have written is never read, and never written.
TEST_F(CacheTest, OnlyWhatNobodyElseMayWriteIsUsed) {
  const std::string key = key_of(1);
  const auto expect_miss = [&](const char* why) {
    EXPECT_FALSE(DiskCache(folder_, kMiB).load(key)) << why;
    DiskCache cache(folder_, kMiB);
    cache.store(key, image_of(2));
    expect_same(cache.load(key), image_of(2));
  };
  const auto reset = [&] {
    fs::remove_all(root_);
    DiskCache(folder_, kMiB).store(key, image_of(1));
    expect_same(DiskCache(folder_, kMiB).load(key), image_of(1));
  };
  reset();
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(entry_file(key)).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
  for (const fs::perms bit : {fs::perms::group_write, fs::perms::others_write}) {
    reset();
    fs::permissions(entry_file(key), bit, fs::perm_options::add);
    expect_miss("file");
    reset();
    fs::permissions(folder_, bit, fs::perm_options::add);
    expect_miss("folder");
    EXPECT_EQ(DiskCache(folder_, kMiB).clear(), 0u) << "not ours to remove";
  }
  reset();
  fs::rename(entry_file(key), root_ / "elsewhere");
  fs::create_symlink(root_ / "elsewhere", entry_file(key));
  expect_miss("symlink");
  reset();
  fs::rename(folder_, root_ / "elsewhere");
  fs::create_directory_symlink(root_ / "elsewhere", folder_);
  for (const char* ending : {"", "/", "/.", "/./"})
    EXPECT_FALSE(DiskCache(folder_ + ending, kMiB).load(key)) << ending;
  expect_miss("symlink of the folder");
  if (geteuid() != 0) return;
  reset();
  ASSERT_EQ(chown(entry_file(key).c_str(), 12345, 12345), 0);
  expect_miss("file of a stranger");
  reset();
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  expect_miss("folder of a stranger");
}

TEST_F(CacheTest, OddFilesAreMisses) {
  const std::string key = key_of(1);
  const auto replaced = [&](const char* what) {
    DiskCache cache(folder_, kMiB);
    EXPECT_FALSE(cache.load(key)) << what;
    cache.store(key, image_of(1));
    expect_same(DiskCache(folder_, kMiB).load(key), image_of(1));
    fs::remove(entry_file(key));
  };
  fs::create_directories(entry_file(key));
  replaced("folder");
  ASSERT_EQ(mkfifo(entry_file(key).c_str(), 0600), 0);
  replaced("fifo");  // and it does not wait for a writer
  write_text(entry_file(key), "");
  fs::resize_file(entry_file(key), std::uintmax_t{1} << 40);  // sparse
  replaced("huge");
  fs::create_symlink("/dev/zero", entry_file(key));
  replaced("device");
}

TEST_F(CacheTest, ReadErrorsAreMissesThatRemoveNothing) {
  const PrivateFolder proc("/proc/self");  // ours; reading mem from its start is an EIO
  EXPECT_FALSE(proc.read("mem", kMiB));
  DiskCache cache(folder_, kMiB);
  cache.store(key_of(1), image_of(1));
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  const auto miss = cache.load(key_of(1));
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_FALSE(miss);
  expect_same(cache.load(key_of(1)), image_of(1));
}

TEST_F(CacheTest, FilesLargerThanAskedAreNotRead) {
  const PrivateFolder files(folder_);
  EXPECT_EQ(files.write("a", "12345678"), "");
  EXPECT_EQ(files.read("a", 8), "12345678");
  EXPECT_FALSE(files.read("a", 7));
  EXPECT_EQ(files.write("empty", ""), "");
  EXPECT_EQ(files.read("empty", 0), "");
  EXPECT_EQ(files.list().size(), 2u);
  EXPECT_TRUE(files.remove("a"));
  EXPECT_FALSE(files.remove("a"));
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
  add([](CompileRequest& r) { r.include_folders.emplace(); });
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

}  // namespace
}  // namespace gpk::jit
