// A profiler's side of NVTX, as small as it can be: writes the ranges it receives to stderr.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>

namespace {

using AnyFunction = void (*)();

struct Callbacks {
  std::size_t struct_bytes;
  int (*get_module_function_table)(int module, AnyFunction*** table, unsigned* size);
};

int push(const char* name) {
  std::fprintf(stderr, "push %s\n", name);
  return 0;
}

int pop() {
  std::fprintf(stderr, "pop\n");
  return 0;
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(const void* (*get_export_table)(std::uint32_t)) {
  const auto* callbacks = static_cast<const Callbacks*>(get_export_table(1));
  if (callbacks == nullptr || callbacks->struct_bytes < sizeof(Callbacks)) return 0;
  for (const int module : {1, 2, 3, 4, 5, 6}) {
    AnyFunction** table = nullptr;
    unsigned size = 0;
    if (callbacks->get_module_function_table(module, &table, &size) == 0) return 0;
    if (module != 1) continue;
    if (size != 16 || table[0] != nullptr || table[16] != nullptr) return 0;
    *table[9] = reinterpret_cast<AnyFunction>(push);
    *table[11] = reinterpret_cast<AnyFunction>(pop);
  }
  return 1;
}
