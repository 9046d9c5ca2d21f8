// What tests of core share: the fake driver in place of the real one, a clean environment, and a
// check at the end that nothing was left on the device.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config.h"
#include "core/context.h"
#include "core/driver.h"
#include "core/memory.h"
#include "core/module.h"
#include "core/stream.h"
#include "device/device_pool.h"
#include "device/transfers.h"
#include "fake_driver/fake_driver.h"

namespace gpk {

inline constexpr Device kCpu{DeviceKind::kCpu, 0};
inline constexpr Device kGpu{DeviceKind::kCuda, 0};

// The exception of type E that `function` throws; a failed test and nothing where it does not.
template <class E, class Function>
std::optional<E> thrown(const Function& function) {
  try {
    function();
  } catch (const E& error) {
    return error;
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return std::nullopt;
  }
  ADD_FAILURE() << "nothing was thrown";
  return std::nullopt;
}

template <class E, class Function>
std::string message_of(const Function& function) {
  const std::optional<E> error = thrown<E>(function);
  return error ? error->what() : "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_CONTAINS(text, part) EXPECT_PRED2(::gpk::contains, text, part)

class CoreTest : public ::testing::Test {
 protected:
  CoreTest() {
    for (const ConfigVariable& variable : config_variables()) set_env(variable.name, nullptr);
    use_driver(fake::api());
    fake::reset();
  }

  ~CoreTest() override {
    device::close_transfers();
    check_nothing_left();
    leave_contexts();
    set_driver_for_testing(nullptr);
    for (const auto& [name, value] : saved_env_) write_env(name, value ? value->c_str() : nullptr);
    Config::reset_for_testing();
    fake::reset();
  }

  // Read by the next Config::get(); put back when the test ends. nullptr: not set.
  void set_env(const std::string& name, const char* value) {
    if (saved_env_.find(name) == saved_env_.end()) {
      const char* old = std::getenv(name.c_str());
      saved_env_[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
    }
    write_env(name, value);
    Config::reset_for_testing();
  }

  // Contexts are made anew from `api`, which must outlive the test.
  static void use_driver(const cu::DriverApi& api) {
    leave_contexts();
    set_driver_for_testing(&api);
  }
  static void use_real_driver() {
    leave_contexts();
    set_driver_for_testing(nullptr);
  }

  static std::shared_ptr<Module> load_module() {
    return Module::load(Context::get(0), "an image", "test.cu");
  }
  static std::shared_ptr<Kernel> load_kernel(const std::string& name) {
    return load_module()->kernel(name, name);
  }

  // The pool of one device has moved memory: its stream for that lives as long as the process.
  void expect_copy_stream() { num_streams_left_ = 1; }

  // Objects that survive a lost device, for example.
  void expect_leftovers() { leftovers_ = true; }

 private:
  static void write_env(const std::string& name, const char* value) {
    if (value == nullptr)
      unsetenv(name.c_str());
    else
      setenv(name.c_str(), value, 1);
  }

  // Contexts live forever; dropped by the library, they stay reachable for LeakSanitizer here.
  static void leave_contexts() {
    device::close_transfers();
    unload_dropped_modules();
    static auto* kept = new std::vector<Context*>;
    for (Context* context : Context::all()) kept->push_back(context);
  }

  void check_nothing_left() const {
    if (leftovers_) return;
    unload_dropped_modules();
    for (Context* context : Context::all()) device::device_pool(context->device()).trim();
    using fake::Kind;
    EXPECT_EQ(fake::num_live(Kind::kMemory), 0u);
    EXPECT_EQ(fake::num_live(Kind::kPinned), 0u);
    EXPECT_EQ(fake::num_live(Kind::kEvent), 0u);
    EXPECT_EQ(fake::num_live(Kind::kModule), 0u);
    EXPECT_EQ(fake::num_live(Kind::kGraph), 0u);
    EXPECT_EQ(fake::num_live(Kind::kGraphExec), 0u);
    EXPECT_EQ(fake::num_live(Kind::kGreenContext), 0u);
    reset_streams_for_testing();
    EXPECT_EQ(fake::num_live(Kind::kStream), num_streams_left_);
  }

  bool leftovers_ = false;
  std::size_t num_streams_left_ = 0;
  std::map<std::string, std::optional<std::string>> saved_env_;
};

}  // namespace gpk
