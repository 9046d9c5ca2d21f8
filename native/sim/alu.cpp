#include "sim/alu.h"

#include "sim/alu_isa.h"

namespace gpk::sim {
namespace {

bool has_avx2() {
#ifdef GPK_SIM_AVX2
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("bmi2");
  return has;
#else
  return false;
#endif
}

}  // namespace

#ifdef GPK_SIM_AVX2
#define GPK_SIM_PICK(call) return has_avx2() ? avx2_isa::call : base_isa::call
#else
#define GPK_SIM_PICK(call) return base_isa::call
#endif

Handler alu_handler(Alu op, Type type, unsigned flags, Rounding rounding) {
  GPK_SIM_PICK(alu_handler(op, type, flags, rounding));
}
Handler compare_handler(Compare compare, Type type, bool ftz) {
  GPK_SIM_PICK(compare_handler(compare, type, ftz));
}
Handler select_handler(unsigned bytes) { GPK_SIM_PICK(select_handler(bytes)); }
Handler fast_convert_handler(Type to, Type from, unsigned mode, unsigned flags) {
  GPK_SIM_PICK(fast_convert_handler(to, from, mode, flags));
}

void multiply_floats(const float* a, const float* b, float* d, unsigned rows, unsigned columns,
                     unsigned depth) {
  GPK_SIM_PICK(multiply_floats(a, b, d, rows, columns, depth));
}
void multiply_integers(const std::int32_t* a, const std::int32_t* b, std::int64_t* d, unsigned rows,
                       unsigned columns, unsigned depth) {
  GPK_SIM_PICK(multiply_integers(a, b, d, rows, columns, depth));
}

}  // namespace gpk::sim
