// Green contexts: streams created on one run on a subset of the GPU's multiprocessors (SMs). Memory
// and kernels belong to the primary context.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/driver_api.h"

namespace gpk::inline core {

class Context;

// The multiprocessors of one GPU, split once into disjoint granules. Thread safe.
class SmGroups : public std::enable_shared_from_this<SmGroups> {
 public:
  // Null, with the reason in `why`, where the driver has no green contexts or kernels of the
  // primary context cannot be launched on them.
  static std::shared_ptr<SmGroups> create(Context& context, std::string& why);
  SmGroups(const SmGroups&) = delete;
  SmGroups& operator=(const SmGroups&) = delete;

  [[nodiscard]] Context& context() const noexcept { return context_; }
  [[nodiscard]] std::size_t granule_sms() const noexcept { return granule_sms_; }
  [[nodiscard]] std::size_t total_sms() const noexcept { return total_sms_; }
  [[nodiscard]] std::size_t num_free() const;  // granules

 private:
  friend class GreenContext;
  explicit SmGroups(Context& context) : context_(context) {}
  bool split(std::string& why);
  bool probe(std::string& why);
  // Takes up to `count` granules; returns those it got.
  std::vector<std::size_t> take(std::size_t count);
  bool take_rest();
  void give_back(const std::vector<std::size_t>& granules, bool rest);

  Context& context_;
  std::size_t granule_sms_ = 0;
  std::size_t total_sms_ = 0;
  std::vector<cu::DevResource> groups_;
  cu::DevResource rest_{};  // SMs left over after the split into granules
  mutable std::mutex mutex_;
  std::vector<bool> taken_;
  bool rest_taken_ = false;
};

class GreenContext {
 public:
  // `num_granules` > 0 of the groups, and with `rest` the leftover multiprocessors too. Null where
  // no granule is free. Throws CudaError.
  static std::shared_ptr<GreenContext> create(std::shared_ptr<SmGroups> groups,
                                              std::size_t num_granules, bool rest);
  ~GreenContext();
  GreenContext(const GreenContext&) = delete;
  GreenContext& operator=(const GreenContext&) = delete;

  [[nodiscard]] cu::GreenCtx handle() const noexcept { return handle_; }
  [[nodiscard]] std::size_t num_sms() const noexcept { return num_sms_; }

 private:
  explicit GreenContext(std::shared_ptr<SmGroups> groups) : groups_(std::move(groups)) {}
  cu::Result make();

  std::shared_ptr<SmGroups> groups_;
  std::vector<std::size_t> granules_;
  bool rest_ = false;
  cu::GreenCtx handle_ = nullptr;
  std::size_t num_sms_ = 0;
};

}  // namespace gpk::inline core
