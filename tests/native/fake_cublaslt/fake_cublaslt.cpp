// A cuBLASLt in software for tests: descriptors as the real ABI has them, products of float32 and
// float64 done at once on memory that is host memory (the fake driver's). Matrices go by columns.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotSupported = 15;

struct Operation {
  int compute_type = 0, scale_type = 0;
  std::int32_t transpose_a = 0, transpose_b = 0, epilogue = 1;
  const void* bias = nullptr;
};
struct Layout {
  int type = 0;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t pitch = 0;
  std::int32_t batches = 1;
  std::int64_t batch_stride = 0;
};
struct Preference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reduction_schemes = 7;  // any
};
struct Heuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

std::atomic<int> g_heuristics{0};
std::atomic<int> g_products{0};
std::atomic<int> g_live{0};
std::atomic<bool> g_refuse{false};

template <class T>
T at(const void* base, const Layout& l, std::int64_t batch, std::int64_t row, std::int64_t column) {
  return static_cast<const T*>(base)[batch * l.batch_stride + column * l.pitch + row];
}

template <class T>
void multiply(const Operation& op, T alpha, const void* a, const Layout& la, const void* b,
              const Layout& lb, void* d, const Layout& ld) {
  const auto k = static_cast<std::int64_t>(op.transpose_a != 0 ? la.rows : la.columns);
  for (std::int64_t batch = 0; batch < ld.batches; ++batch)
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(ld.columns); ++j)
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(ld.rows); ++i) {
        T sum{};
        for (std::int64_t l = 0; l < k; ++l)
          sum += (op.transpose_a != 0 ? at<T>(a, la, batch, l, i) : at<T>(a, la, batch, i, l)) *
                 (op.transpose_b != 0 ? at<T>(b, lb, batch, j, l) : at<T>(b, lb, batch, l, j));
        T value = alpha * sum;
        if ((op.epilogue & 4) != 0) value += static_cast<const T*>(op.bias)[i];
        if ((op.epilogue & 2) != 0) value = std::max(value, T{});
        static_cast<T*>(d)[batch * ld.batch_stride + j * ld.pitch + i] = value;
      }
}

}  // namespace

extern "C" {

int gpk_fake_lt_heuristics() { return g_heuristics; }
int gpk_fake_lt_products() { return g_products; }
int gpk_fake_lt_live() { return g_live; }
void gpk_fake_lt_refuse(int refuse) { g_refuse = refuse != 0; }

std::size_t cublasLtGetVersion() { return 120900; }

int cublasLtCreate(void** handle) {
  static int one;
  *handle = &one;
  return kSuccess;
}

int cublasLtMatmulDescCreate(Operation** op, int compute_type, int scale_type) {
  *op = new Operation{compute_type, scale_type};
  ++g_live;
  return kSuccess;
}
int cublasLtMatmulDescDestroy(Operation* op) {
  delete op;
  --g_live;
  return kSuccess;
}
int cublasLtMatmulDescSetAttribute(Operation* op, int attribute, const void* value,
                                   std::size_t bytes) {
  switch (attribute) {
    case 3: std::memcpy(&op->transpose_a, value, bytes); return kSuccess;
    case 4: std::memcpy(&op->transpose_b, value, bytes); return kSuccess;
    case 7: std::memcpy(&op->epilogue, value, bytes); return kSuccess;
    case 8: std::memcpy(&op->bias, value, bytes); return kSuccess;
    default: return 7;
  }
}

int cublasLtMatrixLayoutCreate(Layout** layout, int type, std::uint64_t rows, std::uint64_t columns,
                               std::int64_t pitch) {
  if (pitch < static_cast<std::int64_t>(rows)) return 7;
  *layout = new Layout{type, rows, columns, pitch};
  ++g_live;
  return kSuccess;
}
int cublasLtMatrixLayoutDestroy(Layout* layout) {
  delete layout;
  --g_live;
  return kSuccess;
}
int cublasLtMatrixLayoutSetAttribute(Layout* layout, int attribute, const void* value,
                                     std::size_t bytes) {
  if (attribute == 5 && bytes == sizeof layout->batches)
    std::memcpy(&layout->batches, value, bytes);
  else if (attribute == 6 && bytes == sizeof layout->batch_stride)
    std::memcpy(&layout->batch_stride, value, bytes);
  else
    return 7;
  return kSuccess;
}

int cublasLtMatmulPreferenceCreate(Preference** preference) {
  *preference = new Preference;
  ++g_live;
  return kSuccess;
}
int cublasLtMatmulPreferenceDestroy(Preference* preference) {
  delete preference;
  --g_live;
  return kSuccess;
}
int cublasLtMatmulPreferenceSetAttribute(Preference* preference, int attribute, const void* value,
                                         std::size_t bytes) {
  if (attribute == 1) std::memcpy(&preference->workspace_bytes, value, bytes);
  if (attribute == 3) std::memcpy(&preference->reduction_schemes, value, bytes);
  return kSuccess;
}

int cublasLtMatmulAlgoGetHeuristic(void*, Operation*, Layout*, Layout*, Layout*, Layout*,
                                   Preference* preference, int num_requested, Heuristic* results,
                                   int* num_results) {
  ++g_heuristics;
  *num_results = 0;
  if (g_refuse || num_requested < 1) return kNotSupported;
  if (preference->reduction_schemes != 2) return kNotSupported;  // sums would be rounded in between
  *results = {};
  results->workspace_bytes = preference->workspace_bytes / 1024;
  *num_results = 1;
  return kSuccess;
}

int cublasLtMatmul(void*, Operation* op, const void* alpha, const void* a, Layout* la,
                   const void* b, Layout* lb, const void*, const void*, Layout*, void* d,
                   Layout* ld, const void*, void* workspace, std::size_t workspace_bytes, void*) {
  if (workspace_bytes > 0 && workspace == nullptr) return 7;
  ++g_products;
  if (op->scale_type == 1)
    multiply<double>(*op, *static_cast<const double*>(alpha), a, *la, b, *lb, d, *ld);
  else
    multiply<float>(*op, *static_cast<const float*>(alpha), a, *la, b, *lb, d, *ld);
  return kSuccess;
}

}  // extern "C"
