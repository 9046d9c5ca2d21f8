#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "jit/digest.h"
#include "jit/sources.h"

namespace gpk::jit {
namespace {

TEST(Sources, SortedAndLookedUp) {
  const auto& all = embedded_sources();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const EmbeddedSource& source : all) EXPECT_EQ(&embedded_source(source.name), &source);
  EXPECT_THROW(embedded_source("no/such.cuh"), InvalidArgument);
  EXPECT_THROW(embedded_closure(""), InvalidArgument);
}

}  // namespace
}  // namespace gpk::jit
