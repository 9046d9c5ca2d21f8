// Measured choices and their file; plans that are remembered.
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "fake_driver/core_fixture.h"
#include "jit/digest.h"
#include "ops/matmul/decision.h"
#include "ops/matmul/general_plan.h"
#include "ops/matmul/plan_cache.h"
#include "ops/matmul/tuning.h"
#include "temp_folder.h"

namespace gpk::ops::gemm {
namespace {

namespace fs = std::filesystem;

class TuningTest : public CoreTest {
 protected:
  TuningTest() {
    set_env("PYGPUKIT_CACHE_DIR", folder_.string().c_str());
    GemmPlans::forget();
  }
  ~TuningTest() override { clear_tuned(true); }

  static GemmCall product(std::int64_t m, DType dtype = DType::kFloat32) {
    const auto empty = [dtype](const Dims& shape) { return Array::empty(shape, dtype, kGpu); };
    return {.a = empty({m, 64}), .b = empty({64, 32}), .c = empty({m, 32})};
  }
  static std::string text_of(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  static void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

  const TempFolder temp_{"tuning"};  // files of another folder are read anew
  const fs::path& folder_ = temp_.path();
};

plan::TuningTable example() {
  MatmulPlan plan;
  plan.kernel = 3;
  plan.transpose = true;
  plan.fused = true;
  plan.tile_m = 128;
  plan.splits = 7;
  plan.k_per_split = 512;
  return {{"sm_90 132 m=1", {plan_fields(plan), 12.5, 13.25}},
          {"sm_90 132 m=2", {plan_fields(MatmulPlan{}), 1.0, 1.0}}};
}

TEST_F(TuningTest, FileKeepsEverything) {
  const std::string path = (folder_ / "deep" / "t.tune").string();
  ASSERT_EQ(tuning_store().write_file(path, example()), "");
  const plan::TuningTable back = tuning_store().read_file(path);
  ASSERT_EQ(back.size(), 2u);
  const plan::TunedText& first = back.at("sm_90 132 m=1");
  EXPECT_EQ(first.plan, example().at("sm_90 132 m=1").plan);
  MatmulPlan plan;
  ASSERT_TRUE(read_plan(first.plan, plan));
  EXPECT_EQ(plan_fields(plan), first.plan);
  EXPECT_EQ(first.us, 12.5);
  EXPECT_EQ(first.native_us, 13.25);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deep"), fs::directory_iterator()), 1);
}

TEST_F(TuningTest, DamageIsAMiss) {
  fs::create_directories(folder_);
  const fs::path path = folder_ / "t.tune";
  EXPECT_TRUE(tuning_store().read_file(path.string()).empty());
  ASSERT_EQ(tuning_store().write_file(path.string(), example()), "");
  const std::string good = text_of(path);
  for (const std::size_t length : {std::size_t{0}, std::size_t{10}, good.size() - 1}) {
    write(path, good.substr(0, length));
    EXPECT_TRUE(tuning_store().read_file(path.string()).empty()) << length;
  }
  std::string flipped = good;
  flipped[good.size() - 4] ^= 1;
  write(path, flipped);
  EXPECT_TRUE(tuning_store().read_file(path.string()).empty());
  std::string other = good;
  other[good.find(" 1 ") + 1] = '9';  // another schema
  write(path, other);
  EXPECT_TRUE(tuning_store().read_file(path.string()).empty());
  write(path, good);
  EXPECT_EQ(tuning_store().read_file(path.string()).size(), 2u);
}

TEST_F(TuningTest, FilesOthersMayHaveWrittenAreAMiss) {
  const fs::path path = folder_ / "t.tune";
  const auto reset = [&] {
    fs::remove_all(folder_);
    ASSERT_EQ(tuning_store().write_file(path.string(), example()), "");
    ASSERT_EQ(tuning_store().read_file(path.string()).size(), 2u);
  };
  const auto size = [&] { return tuning_store().read_file(path.string()).size(); };
  reset();
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(path, fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(size(), 0u);
  reset();
  fs::permissions(folder_, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(size(), 0u);
  EXPECT_CONTAINS(tuning_store().write_file(path.string(), example()), "other users");
  reset();
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::rename(path, elsewhere);
  fs::create_symlink(elsewhere, path);
  EXPECT_EQ(size(), 0u);
  reset();
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(size(), 0u);
  reset();
  fs::resize_file(path, std::uintmax_t{1} << 40);  // sparse
  EXPECT_EQ(size(), 0u);
  reset();
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(size(), 0u);
  EXPECT_EQ(tuning_store().write_file(path.string(), example()), "") << "it takes the place";
  EXPECT_EQ(size(), 2u);
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(size(), 0u);
  reset();
  ASSERT_EQ(chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_EQ(size(), 0u);
}

TEST_F(TuningTest, LinesThatCannotBeReadAreAMiss) {
  const fs::path path = folder_ / "t.tune";
  ASSERT_EQ(tuning_store().write_file(path.string(), example()), "");
  const std::string text = text_of(path);
  const std::string body = text.substr(text.find('\n') + 1);
  const std::string line = "\tgeneral 3 1 1 128 0 0 0 1 0 7 512\t12.5 13.25";
  EXPECT_CONTAINS(body, line);
  const std::string start = text.substr(0, text.find('\n') - 64);
  for (const auto& [from, to] : {std::pair{"general", "general"},
                                 {"general", "nosuch"},
                                 {" 512\t", "\t"},
                                 {"12.5 ", "x "}}) {
    std::string changed = body;
    changed.replace(changed.find(from), std::strlen(from), to);
    write(path, start + jit::sha256_hex(changed) + "\n" + changed);
    EXPECT_EQ(tuning_store().read_file(path.string()).size(), changed == body ? 2u : 0u) << to;
  }
}

TEST_F(TuningTest, ChoicesOfOtherProcessesStay) {
  const GemmMachine machine = gemm_machine_of(Context::get(0));
  ASSERT_EQ(tuning_store().write_file(tuning_store().path(), example()), "");
  const MatmulDesc desc = make_desc(product(40));
  EXPECT_FALSE(find_tuned(desc, machine));
  plan::TuningTable others = example();
  others["sm_90 132 m=3"] = {plan_fields(MatmulPlan{})};
  ASSERT_EQ(tuning_store().write_file(tuning_store().path(), others), "");  // meanwhile
  store_tuned(desc, machine, {plan_general(desc, machine), 5.0, 5.0});
  const plan::TuningTable all = tuning_store().read_file(tuning_store().path());
  EXPECT_EQ(all.size(), 4u);
  EXPECT_TRUE(all.contains("sm_90 132 m=3"));
  EXPECT_TRUE(all.contains(tuning_key(desc, machine)));
  EXPECT_EQ(clear_tuned(true), 3u);
  EXPECT_FALSE(fs::exists(tuning_store().path()));
}

TEST_F(TuningTest, MeasuredPlansWinWhileTheyAreProposed) {
  const GemmMachine machine = gemm_machine_of(Context::get(0));
  const MatmulDesc desc = make_desc(product(40));
  EXPECT_EQ(decide_plan(desc, machine).reason, plan::Reason::kModel);
  MatmulPlan plan = propose_matmul(desc, machine).back();
  store_tuned(desc, machine, {plan, 5.0, 5.0});
  EXPECT_EQ(decide_plan(desc, machine).reason, plan::Reason::kMeasured);
  EXPECT_EQ(decide_plan(desc, machine).plan, plan);
  EXPECT_EQ(decide_plan(desc, machine).measured_us, 5.0);
  EXPECT_EQ(decide_plan(make_desc(product(41)), machine).reason, plan::Reason::kModel);
  plan.splits = 977;  // a kernel that is not there any more
  store_tuned(desc, machine, {plan, 5.0, 5.0});
  EXPECT_EQ(decide_plan(desc, machine).reason, plan::Reason::kModel);
}

TEST_F(TuningTest, NothingOnDiskWithoutACache) {
  set_env("PYGPUKIT_CACHE_DISABLE", "1");
  const GemmMachine machine = gemm_machine_of(Context::get(0));
  const MatmulDesc desc = make_desc(product(40));
  store_tuned(desc, machine, {plan_general(desc, machine), 5.0, 5.0});
  EXPECT_TRUE(tuning_store().path().empty());
  EXPECT_TRUE(find_tuned(desc, machine));
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(TuningTest, PlansAreMadeOnce) {
  Context& context = Context::get(0);
  const GemmCall p = product(40);
  const auto first = planned(p, context, "test");
  EXPECT_EQ(first->fit, DescFit::kFits);
  EXPECT_EQ(planned(p, context, "test"), first);
  EXPECT_EQ(planned(product(40), context, "test"), first);  // other memory, same GEMM
  EXPECT_NE(planned(product(41), context, "test"), first);
  GemmCall other = p;
  other.tf32 = true;
  EXPECT_NE(planned(other, context, "test"), first);
  other = p;
  other.a = Array(p.a.shape(), p.a.strides(), p.a.dtype(), p.a.buffer(), 1);  // less aligned
  EXPECT_NE(planned(other, context, "test"), first);
  other = p;
  other.epilogue.bias = Array::empty({32}, DType::kFloat32, kGpu);
  const auto biased = planned(other, context, "test");
  EXPECT_NE(biased, first);
  EXPECT_EQ(planned(other, context, "test"), biased);
  GemmPlans::forget();
  EXPECT_NE(planned(p, context, "test"), first);
  EXPECT_EQ(planned(p, context, "test")->desc, first->desc);
}

}  // namespace
}  // namespace gpk::ops::gemm
