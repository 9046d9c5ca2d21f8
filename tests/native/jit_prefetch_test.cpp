#include "jit/prefetch.h"

#include "fake_driver/core_fixture.h"
#include "jit/bundle.h"
#include "jit/disk_cache.h"
#include "temp_folder.h"

namespace gpk::jit {
namespace {

BundleEntry entry(const std::string& name) {
  return {"elementwise/fill.cuh",
          "gpk::" + name,
          name,
          80,
          false,
          ".version 7.0\n.target sm_80\n.visible .entry " + name + "(\n)\n{\n}\n" +
              std::string(1, '\0')};
}

KernelSpec spec(const std::string& name) {
  KernelSpec made;
  made.file = "elementwise/fill.cuh";
  made.op = "fill";
  made.expression = "gpk::" + name;
  return made;
}

class PrefetchTest : public CoreTest {
 protected:
  PrefetchTest() {
    set_env("PYGPUKIT_CACHE_DIR", folder_.path().string().c_str());
    set_env("PYGPUKIT_PREFETCH", "2");
    packed_ = pack_bundle({entry("one"), entry("two"), entry("three")}, 13, 0);
    set_bundle(packed_);
  }
  ~PrefetchTest() override { set_bundle({}); }

  static std::uint64_t num_cached() { return disk_cache()->stat().num_entries; }

  TempFolder folder_{"prefetch"};
  std::string packed_;
};

TEST_F(PrefetchTest, PreparesWhatIsBundled) {
  Context& context = Context::get(0);
  prefetch(context, [] { return std::vector{spec("one"), spec("none"), spec("two")}; });
  finish_prefetch();
  EXPECT_EQ(num_cached(), 2u);
  EXPECT_EQ(fake::num_calls("cuLinkComplete"), 2u);
  EXPECT_EQ(fake::num_calls("cuModuleLoadDataEx"), 0u);
  load_builtin(context, spec("one"));  // from the cache
  EXPECT_EQ(fake::num_calls("cuLinkComplete"), 2u);
  load_builtin(context, spec("three"));
  EXPECT_EQ(fake::num_calls("cuLinkComplete"), 3u);
  EXPECT_EQ(num_cached(), 3u);
}

TEST_F(PrefetchTest, AFailureIsLeftToTheFirstUse) {
  Context& context = Context::get(0);
  fake::fail_module_load(cu::kInvalidPtx, "");
  prefetch(context, [] { return std::vector{spec("one")}; });
  finish_prefetch();
  EXPECT_EQ(num_cached(), 0u);
  EXPECT_NE(load_builtin(context, spec("one")), nullptr);
}

TEST_F(PrefetchTest, NothingWithoutThreads) {
  set_env("PYGPUKIT_PREFETCH", "0");
  prefetch(Context::get(0), [] { return std::vector{spec("one")}; });
  finish_prefetch();
  EXPECT_EQ(num_cached(), 0u);
}

}  // namespace
}  // namespace gpk::jit
