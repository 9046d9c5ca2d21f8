// The lane loops for processors with AVX2 and FMA.
#include "sim/alu_isa.h"

#ifdef GPK_SIM_AVX2
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,bmi,bmi2,lzcnt,popcnt"))), \
                             apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,bmi,bmi2,lzcnt,popcnt")
#endif
namespace gpk::sim::avx2_isa {
#include "sim/alu_kernels.h"
}  // namespace gpk::sim::avx2_isa
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
