#include "core/config.h"

#include <map>
#include <set>

#include "base/error.h"
#include "fake_driver/core_fixture.h"

namespace gpk {
namespace {

using Variables = std::map<std::string, std::string>;

Config parse(const Variables& variables) {
  return Config::parse([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(ConfigParse, EmptyEnvironmentGivesDefaults) {
  const Config config = parse({});
  EXPECT_EQ(config.cache_dir, "");
  EXPECT_FALSE(config.cache_disable);
  EXPECT_EQ(config.nvrtc_path, "");
  EXPECT_EQ(config.cuda_driver, "");
  EXPECT_EQ(config.cublaslt_path, "");
  EXPECT_EQ(config.device, DeviceChoice::kAuto);
  EXPECT_FALSE(config.require_gpu);
  EXPECT_FALSE(config.allow_tf32);
  EXPECT_FALSE(config.no_tf32);
  EXPECT_EQ(config.memory_limit_bytes, 0u);
  EXPECT_EQ(config.memory_limit_fraction, 0.0);
  EXPECT_FALSE(config.launch_blocking);
  EXPECT_FALSE(config.seed.has_value());
  EXPECT_EQ(config.log, LogLevel::kWarning);
  EXPECT_TRUE(config.cuda_roots.empty());
  EXPECT_EQ(config.conda_prefix, "");
  EXPECT_FALSE(config.no_color);
}

TEST(ConfigParse, EveryText) {
  const Config config = parse({{"PYGPUKIT_NVRTC_PATH", " /n "},
                               {"PYGPUKIT_CUDA_DRIVER", "/d"},
                               {"PYGPUKIT_CUBLASLT_PATH", "/b"},
                               {"CUDA_PATH", "/p"},
                               {"CUDA_HOME", "/h"},
                               {"CONDA_PREFIX", "/c"},
                               {"NO_COLOR", "anything"}});
  EXPECT_EQ(config.nvrtc_path, "/n");
  EXPECT_EQ(config.cuda_driver, "/d");
  EXPECT_EQ(config.cublaslt_path, "/b");
  EXPECT_EQ(config.cuda_roots, (std::vector<std::string>{"/p", "/h"}));
  EXPECT_EQ(config.conda_prefix, "/c");
  EXPECT_TRUE(config.no_color);
}

struct Flag {
  const char* name;
  bool Config::* member;
};
constexpr Flag kFlags[] = {
    {"PYGPUKIT_CACHE_DISABLE", &Config::cache_disable},
    {"PYGPUKIT_REQUIRE_GPU", &Config::require_gpu},
    {"PYGPUKIT_ALLOW_TF32", &Config::allow_tf32},
    {"PYGPUKIT_NO_TF32", &Config::no_tf32},
    {"PYGPUKIT_LAUNCH_BLOCKING", &Config::launch_blocking},
    {"PYGPUKIT_TOP", &Config::top},
};

TEST(ConfigParse, EveryFlag) {
  for (const Flag& flag : kFlags) {
    SCOPED_TRACE(flag.name);
    for (const char* yes : {"1", "true", "YES", "On", " 1 "})
      EXPECT_TRUE(parse({{flag.name, yes}}).*flag.member) << yes;
    for (const char* no : {"", "0", "False", "no", "OFF"})
      EXPECT_FALSE(parse({{flag.name, no}}).*flag.member) << no;
    for (const char* bad : {"2", "maybe", "-1"}) {
      const std::string message = message_of<InvalidArgument>([&] { parse({{flag.name, bad}}); });
      EXPECT_CONTAINS(message, flag.name);
      EXPECT_CONTAINS(message, bad);
    }
  }
}

TEST(ConfigParse, Device) {
  EXPECT_EQ(parse({{"PYGPUKIT_DEVICE", "auto"}}).device, DeviceChoice::kAuto);
  EXPECT_EQ(parse({{"PYGPUKIT_DEVICE", "CUDA"}}).device, DeviceChoice::kCuda);
  EXPECT_EQ(parse({{"PYGPUKIT_DEVICE", "gpu"}}).device, DeviceChoice::kCuda);
  EXPECT_EQ(parse({{"PYGPUKIT_DEVICE", "cpu"}}).device, DeviceChoice::kCpu);
  const std::string message =
      message_of<InvalidArgument>([] { parse({{"PYGPUKIT_DEVICE", "tpu"}}); });
  EXPECT_EQ(message, "environment: PYGPUKIT_DEVICE is 'tpu', expected auto, cuda, cpu or sim");
}

TEST(ConfigParse, CpuAndRequiredGpuExcludeEachOther) {
  const std::string message = message_of<InvalidArgument>(
      [] { parse({{"PYGPUKIT_DEVICE", "cpu"}, {"PYGPUKIT_REQUIRE_GPU", "1"}}); });
  EXPECT_CONTAINS(message, "PYGPUKIT_DEVICE");
  EXPECT_CONTAINS(message, "PYGPUKIT_REQUIRE_GPU");
}

TEST(ConfigParse, LogLevels) {
  EXPECT_EQ(parse({{"PYGPUKIT_LOG", "off"}}).log, LogLevel::kOff);
  EXPECT_EQ(parse({{"PYGPUKIT_LOG", "error"}}).log, LogLevel::kError);
  EXPECT_EQ(parse({{"PYGPUKIT_LOG", "Warning"}}).log, LogLevel::kWarning);
  EXPECT_EQ(parse({{"PYGPUKIT_LOG", "info"}}).log, LogLevel::kInfo);
  EXPECT_EQ(parse({{"PYGPUKIT_LOG", "debug"}}).log, LogLevel::kDebug);
  EXPECT_CONTAINS(message_of<InvalidArgument>([] { parse({{"PYGPUKIT_LOG", "loud"}}); }),
                  "PYGPUKIT_LOG is 'loud'");
}

TEST(ConfigParse, Seed) {
  EXPECT_EQ(parse({{"PYGPUKIT_SEED", "0"}}).seed, 0u);
  EXPECT_EQ(parse({{"PYGPUKIT_SEED", "18446744073709551615"}}).seed, ~std::uint64_t{0});
  for (const char* bad : {"-1", "1.5", "x", "7 8", "18446744073709551616"})
    EXPECT_CONTAINS(message_of<InvalidArgument>([&] { parse({{"PYGPUKIT_SEED", bad}}); }),
                    "PYGPUKIT_SEED");
}

TEST(ConfigParse, MemoryLimit) {
  const auto bytes = [](const char* text) {
    return parse({{"PYGPUKIT_MEMORY_LIMIT", text}}).memory_limit_bytes;
  };
  EXPECT_EQ(bytes("4096"), 4096u);
  EXPECT_EQ(bytes("2k"), 2048u);
  EXPECT_EQ(bytes("3M"), 3u << 20);
  EXPECT_EQ(bytes("1.5 G"), std::uint64_t{3} << 29);
  EXPECT_EQ(bytes("1T"), std::uint64_t{1} << 40);
  EXPECT_EQ(bytes("2 GiB"), std::uint64_t{2} << 30);
  const Config percent = parse({{"PYGPUKIT_MEMORY_LIMIT", "90%"}});
  EXPECT_DOUBLE_EQ(percent.memory_limit_fraction, 0.9);
  EXPECT_EQ(percent.memory_limit_bytes, 0u);
  for (const char* bad :
       {"0", "-1", "101%", "1GB", "much", "inf", "nan", "%", "5 ib", "9999999999T"})
    EXPECT_CONTAINS(message_of<InvalidArgument>([&] { bytes(bad); }), "PYGPUKIT_MEMORY_LIMIT")
        << bad;
}

TEST(ConfigParse, MemoryLimitBelowOneByteIsRefused) {
  EXPECT_CONTAINS(message_of<InvalidArgument>([] { parse({{"PYGPUKIT_MEMORY_LIMIT", "0.5"}}); }),
                  "PYGPUKIT_MEMORY_LIMIT");  // 0 bytes would mean no limit
}

TEST(ConfigParse, MemoryChunk) {
  EXPECT_EQ(parse({}).memory_chunk_bytes, 0u);
  EXPECT_EQ(parse({{"PYGPUKIT_MEMORY_CHUNK", "8MiB"}}).memory_chunk_bytes, 8u << 20);
  for (const char* bad : {"3M", "1K", "50%", "x"})
    EXPECT_CONTAINS(message_of<InvalidArgument>([&] { parse({{"PYGPUKIT_MEMORY_CHUNK", bad}}); }),
                    "PYGPUKIT_MEMORY_CHUNK");
}

TEST(ConfigParse, CacheDirOrder) {
  Variables variables{{"LOCALAPPDATA", "/local"}};
  EXPECT_EQ(parse(variables).cache_dir, "/local/pygpukit");
  variables["HOME"] = "/home/me";
  EXPECT_EQ(parse(variables).cache_dir, "/home/me/.cache/pygpukit");
  variables["XDG_CACHE_HOME"] = "/xdg";
  EXPECT_EQ(parse(variables).cache_dir, "/xdg/pygpukit");
  variables["PYGPUKIT_CACHE_DIR"] = "/mine";
  EXPECT_EQ(parse(variables).cache_dir, "/mine");
  variables["PYGPUKIT_CACHE_DIR"] = "";  // empty is as not set
  EXPECT_EQ(parse(variables).cache_dir, "/xdg/pygpukit");
}

TEST(ConfigVariables, ListsEveryVariableOnce) {
  std::set<std::string> read;
  Config::parse([&](const char* name) -> const char* {
    read.insert(name);
    return nullptr;
  });
  std::set<std::string> listed;
  for (const ConfigVariable& variable : config_variables()) {
    EXPECT_TRUE(listed.insert(variable.name).second) << variable.name;
    EXPECT_NE(std::string(variable.meaning), "");
  }
  for (const char* system : {"HOME", "LOCALAPPDATA"}) read.erase(system);
  for (const std::string& name : read) EXPECT_EQ(listed.count(name), 1u) << name;
}

class ConfigGet : public CoreTest {};

TEST_F(ConfigGet, ReadsTheEnvironmentOnce) {
  set_env("PYGPUKIT_SEED", "5");
  EXPECT_EQ(Config::get().seed, 5u);
  setenv("PYGPUKIT_SEED", "6", 1);
  EXPECT_EQ(Config::get().seed, 5u);
  Config::reset_for_testing();
  EXPECT_EQ(Config::get().seed, 6u);
}

TEST_F(ConfigGet, TriesAgainAfterABadValue) {
  set_env("PYGPUKIT_SEED", "bad");
  EXPECT_THROW(Config::get(), InvalidArgument);
  setenv("PYGPUKIT_SEED", "7", 1);
  EXPECT_EQ(Config::get().seed, 7u);
}

}  // namespace
}  // namespace gpk
