// What tests share: which error a call throws, and how long random tests run.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace gpk {

// GPK_TEST_LONG=1 runs the random tests a hundred times longer.
inline unsigned rounds(unsigned count) {
  const char* value = std::getenv("GPK_TEST_LONG");
  return value != nullptr && *value == '1' ? 100 * count : count;
}

// The kind of the error that `call` throws, and its text; a failed test where it throws none.
template <class Call>
Error::Kind kind_of(const Call& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const Error& error) {
    if (message != nullptr) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error::Kind::kState;
}

}  // namespace gpk
