// What tests of the runtime share: which error a call throws, and how long random tests run.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace gpk::runtime {

// GPK_TEST_LONG=1 runs the random tests a hundred times longer.
inline unsigned rounds(unsigned count) {
  const char* value = std::getenv("GPK_TEST_LONG");
  return value != nullptr && *value == '1' ? 100 * count : count;
}

// The kind of the error that `call` throws; a failed test where it throws none.
template <class Call>
Error::Kind kind_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error::Kind::kState;
}

}  // namespace gpk::runtime
