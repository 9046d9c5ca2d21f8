// Device addresses in the argument structs of kernels/args, whose fields are typed pointers.
#pragma once

#include <cstddef>
#include <optional>

#include "core/array.h"

namespace gpk::ops {

// Converts implicitly to the pointer type of the field. The host never dereferences it.
class DeviceAddress {
 public:
  explicit DeviceAddress(void* value) noexcept : value_(value) {}

  template <class T>
  operator T*() const noexcept {  // NOLINT(google-explicit-constructor): the class is for this
    return static_cast<T*>(value_);
  }
  [[nodiscard]] DeviceAddress operator+(std::ptrdiff_t bytes) const noexcept {
    return DeviceAddress(static_cast<unsigned char*>(value_) + bytes);
  }

 private:
  void* value_;
};

inline DeviceAddress address(const Array& array) { return DeviceAddress(array.data()); }

// Null where there is no array.
inline DeviceAddress address(const Array* array) {
  return DeviceAddress(array == nullptr ? nullptr : array->data());
}
inline DeviceAddress address(const std::optional<Array>& array) {
  return address(array ? &*array : nullptr);
}
// The address of element `elem`.
inline DeviceAddress address(const std::optional<Array>& array, std::int64_t elem) {
  if (!array) return DeviceAddress(nullptr);
  return address(*array) + elem * static_cast<std::int64_t>(itemsize(array->dtype()));
}

}  // namespace gpk::ops
