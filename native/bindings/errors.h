// Maps C++ exceptions to the classes of pygpukit.core.errors.
#pragma once

#include "bindings/python.h"

namespace gpk::bind {

// Sets the Python error for the exception being handled. Call inside a catch block.
void set_python_error() noexcept;

// Runs `body` in a C-API slot: exceptions become Python errors and the slot returns `failure`.
template <class Body, class Result>
Result guarded(Result failure, const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    set_python_error();
    return failure;
  }
}

void register_errors();

}  // namespace gpk::bind
