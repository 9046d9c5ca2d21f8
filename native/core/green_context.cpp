#include "core/green_context.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/context.h"
#include "core/memory.h"
#include "core/module.h"
#include "core/stream.h"

namespace gpk::inline core {
namespace {

// An empty kernel; the driver compiles it for any GPU.
constexpr const char* kProbe =
    ".version 7.0\n.target sm_80\n.address_size 64\n"
    ".visible .entry gpk_green_probe()\n{\n  ret;\n}\n";

cu::Device ordinal_of(Context& context) {
  cu::Device device = 0;
  GPK_CU_CHECK(cuDeviceGet, &device, context.device().index);
  return device;
}

bool in_driver() {
  const cu::DriverApi& api = driver();
  return api.cuDeviceGetDevResource != nullptr && api.cuDevSmResourceSplitByCount != nullptr &&
         api.cuDevResourceGenerateDesc != nullptr && api.cuGreenCtxCreate != nullptr &&
         api.cuGreenCtxDestroy != nullptr && api.cuGreenCtxStreamCreate != nullptr;
}

}  // namespace

std::shared_ptr<SmGroups> SmGroups::create(Context& context, std::string& why) {
  context.make_current();
  if (!in_driver()) {
    why = "the driver has no green contexts (12.5 has them)";
    return nullptr;
  }
  std::shared_ptr<SmGroups> groups(new SmGroups(context));
  if (!groups->split(why) || !groups->probe(why)) return nullptr;
  return groups;
}

// Kernels belong to the primary context. That they also run on streams of green contexts is what
// drivers do, but not what every version of the documentation guarantees: probe it once.
bool SmGroups::probe(std::string& why) {
  const auto green = GreenContext::create(shared_from_this(), 1, false);
  const auto stream = Stream::create_in(context_.device(), green, 0);
  const auto kernel = Module::load(context_, kProbe, "green context probe")
                          ->kernel("gpk_green_probe", "gpk_green_probe");
  cu::Result result = driver().cuLaunchKernel(kernel->function(), 1, 1, 1, 1, 1, 1, 0,
                                              stream->handle(), nullptr, nullptr);
  if (result == cu::kSuccess) result = driver().cuStreamSynchronize(stream->handle());
  if (result != cu::kSuccess) {
    why = cat("kernels cannot be launched on green contexts here: ", result_name(result));
    return false;
  }
  return true;
}

bool SmGroups::split(std::string& why) {
  cu::DevResource all{};
  const auto failed = [&](cu::Result result, const char* call) {
    why = cat(call, " failed with ", result_name(result));
    return false;
  };
  cu::Result result = driver().cuDeviceGetDevResource(ordinal_of(context_), &all, cu::kResourceSm);
  if (result != cu::kSuccess) return failed(result, "cuDeviceGetDevResource");
  unsigned count = 0;
  result = driver().cuDevSmResourceSplitByCount(nullptr, &count, &all, nullptr, 0, 1);
  if (result != cu::kSuccess || count == 0) return failed(result, "cuDevSmResourceSplitByCount");
  groups_.resize(count);
  result = driver().cuDevSmResourceSplitByCount(groups_.data(), &count, &all, &rest_, 0, 1);
  if (result != cu::kSuccess || count == 0) return failed(result, "cuDevSmResourceSplitByCount");
  groups_.resize(count);
  taken_.resize(count, false);
  granule_sms_ = groups_.front().sm_count;
  total_sms_ = all.sm_count;
  rest_taken_ = rest_.type != cu::kResourceSm || rest_.sm_count == 0;  // no remainder
  return true;
}

std::size_t SmGroups::num_free() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count(taken_.begin(), taken_.end(), false));
}

std::vector<std::size_t> SmGroups::take(std::size_t count) {
  std::vector<std::size_t> granules;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < taken_.size() && granules.size() < count; ++i) {
    if (taken_[i]) continue;
    taken_[i] = true;
    granules.push_back(i);
  }
  return granules;
}

bool SmGroups::take_rest() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(rest_taken_, true);
}

void SmGroups::give_back(const std::vector<std::size_t>& granules, bool rest) {
  const std::lock_guard lock(mutex_);
  for (const std::size_t granule : granules) taken_[granule] = false;
  if (rest) rest_taken_ = false;
}

std::shared_ptr<GreenContext> GreenContext::create(std::shared_ptr<SmGroups> groups,
                                                   std::size_t num_granules, bool rest) {
  groups->context().make_current();
  std::shared_ptr<GreenContext> made(new GreenContext(std::move(groups)));
  made->granules_ = made->groups_->take(num_granules);
  if (made->granules_.empty()) return nullptr;
  made->rest_ = rest && made->groups_->take_rest();
  cu::Result result = made->make();
  // Some drivers cannot combine the remainder with granules.
  if (result != cu::kSuccess && made->rest_) {
    made->groups_->give_back({}, true);
    made->rest_ = false;
    result = made->make();
  }
  check_cuda(result, "cuGreenCtxCreate");
  return made;
}

cu::Result GreenContext::make() {
  std::vector<cu::DevResource> resources;
  for (const std::size_t granule : granules_) resources.push_back(groups_->groups_[granule]);
  if (rest_) resources.push_back(groups_->rest_);
  const RelaxedCaptureScope relaxed;
  cu::ResourceDesc desc = nullptr;
  cu::Result result = driver().cuDevResourceGenerateDesc(&desc, resources.data(),
                                                         static_cast<unsigned>(resources.size()));
  if (result != cu::kSuccess) return result;
  result = driver().cuGreenCtxCreate(&handle_, desc, ordinal_of(groups_->context()),
                                     cu::kGreenDefaultStream);
  if (result != cu::kSuccess) return result;
  num_sms_ = 0;
  for (const cu::DevResource& resource : resources) num_sms_ += resource.sm_count;
  cu::DevResource given{};
  if (driver().cuGreenCtxGetDevResource != nullptr &&
      driver().cuGreenCtxGetDevResource(handle_, &given, cu::kResourceSm) == cu::kSuccess)
    num_sms_ = given.sm_count;  // as reported by the driver
  return cu::kSuccess;
}

GreenContext::~GreenContext() {
  try {
    if (handle_ != nullptr) {
      groups_->context().make_current();
      const RelaxedCaptureScope relaxed;
      driver().cuGreenCtxDestroy(handle_);
    }
  } catch (...) {  // the device is lost, and its contexts with it
  }
  groups_->give_back(granules_, rest_);
}

}  // namespace gpk::inline core
