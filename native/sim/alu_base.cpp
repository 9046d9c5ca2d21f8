// The lane loops for any processor.
#include "sim/alu_isa.h"

namespace gpk::sim::base_isa {
#include "sim/alu_kernels.h"
}  // namespace gpk::sim::base_isa
