#include "plan/key_builder.h"

#include "base/error.h"
#include "base/text.h"
#include "core/dtype.h"

namespace gpk::plan {

static_assert(kNumDTypes <= 1 << kDTypeBits);

void key_overflow(const char* field, std::uint64_t value, int bits, int used) {
  throw Error(cat("variant key: ", field, " is ", value, ", which does not fit into ", bits,
                  " bits after the ", used, " of the fields before it"));
}

}  // namespace gpk::plan
