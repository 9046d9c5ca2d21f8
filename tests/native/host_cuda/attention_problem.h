// A problem for the kernels of native/kernels/attention: operands in every layout, and the results
// in float64. Include after host_cuda.h.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "args/attention.h"
#include "common/dtype.cuh"

namespace gpk::host_attention {

using kernels::AttentionArgs;
using kernels::AttentionStrides;
using kernels::kUnbounded;

struct Shape {
  int batch = 2;
  int heads = 4;
  int kv_heads = 2;
  int q_len = 1;
  int kv_len = 70;
  int dim = 64;
  int value_dim = 64;
  int left = kUnbounded;
  int right = kUnbounded;
  std::vector<int> lengths;             // keys of each sequence; empty: kv_len
  std::vector<int> q_packed, k_packed;  // queries and keys of packed sequences; empty: not packed
  int page_log2 = -1;                   // keys of a page; -1: contiguous
  float softcap = 0.0f;
  float v_scale = 1.0f;
  bool sinks = false;
  bool mask = false;
  bool bias = false;
};

inline std::size_t at(long long i) { return static_cast<std::size_t>(i); }

template <class T>
std::vector<T> normal(long long count, unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> draw(0.0f, 1.0f);
  std::vector<T> values(at(count));
  for (T& value : values) value = convert<T>(draw(bits));
  return values;
}

// Operands are as long as they have to be, so that ASan finds what is read beyond. Keys that no
// query may see are NaN, and pages that no sequence has are far away.
template <class T, class Kv>
class Problem {
 public:
  AttentionArgs args{};

  explicit Problem(const Shape& shape) : shape_(shape) {
    const Shape& s = shape_;
    const bool packed = !s.q_packed.empty();
    q_starts_ = starts_of(s.q_packed);
    k_starts_ = starts_of(s.k_packed);
    const long long q_rows = packed ? q_starts_.back() : s.batch * s.q_len;
    q_ = normal<T>(q_rows * s.heads * s.dim, 1);
    out_.assign(at(q_rows * s.heads * s.value_dim), convert<T>(77.0f));
    make_keys();
    args.q = q_.data();
    args.k = k_.data();
    args.v = v_.data();
    args.out = out_.data();
    args.q_at = strides(s.q_len, s.heads, s.dim);
    args.out_at = strides(s.q_len, s.heads, s.value_dim);
    if (packed) args.q_starts = q_starts_.data();
    if (!s.k_packed.empty()) args.k_starts = k_starts_.data();
    if (!s.lengths.empty()) args.lengths = shape_.lengths.data();
    make_options();
    args.batch = s.batch;
    args.heads = s.heads;
    args.group = s.heads / s.kv_heads;
    args.q_len = s.q_len;
    args.kv_len = s.kv_len;
    args.dim = s.dim;
    args.value_dim = s.value_dim;
    args.left = s.left;
    args.right = s.right;
    args.scale = scale() * 1.4426950408889634f;
    args.softcap = s.softcap;
    args.v_scale = s.v_scale;
  }
  Problem(const Problem&) = delete;  // args points into it

  // Against float64. Results are averages of values of about 1.
  void check(double tolerance) const {
    for (int b = 0; b < shape_.batch; ++b)
      for (int row = 0; row < queries_of(b); ++row)
        for (int head = 0; head < shape_.heads; ++head) {
          const std::vector<double> want = expected(b, row, head);
          for (int i = 0; i < shape_.value_dim; ++i) {
            const double got =
                to_compute(out_[at((q_row(b, row) * shape_.heads + head) * shape_.value_dim + i)]);
            ASSERT_NEAR(got, want[at(i)], tolerance)
                << "sequence " << b << ", query " << row << ", head " << head << ", column " << i;
          }
        }
  }

  [[nodiscard]] int queries_of(int b) const {
    return shape_.q_packed.empty() ? shape_.q_len : shape_.q_packed[at(b)];
  }
  [[nodiscard]] const std::vector<T>& out() const { return out_; }
  [[nodiscard]] const std::vector<T>& q() const { return q_; }
  [[nodiscard]] const std::vector<Kv>& k() const { return k_; }
  [[nodiscard]] const std::vector<Kv>& v() const { return v_; }

 private:
  static std::vector<int> starts_of(const std::vector<int>& sizes) {
    std::vector<int> starts(sizes.size() + 1, 0);
    std::partial_sum(sizes.begin(), sizes.end(), starts.begin() + 1);
    return starts;
  }
  static AttentionStrides strides(long long rows, long long heads, long long dim) {
    return {rows * heads * dim, heads * dim, dim};
  }
  [[nodiscard]] float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.dim)); }

  [[nodiscard]] int keys_of(int b) const {
    int length = shape_.k_packed.empty() ? shape_.kv_len : shape_.k_packed[at(b)];
    if (!shape_.lengths.empty()) length = std::max(0, std::min(length, shape_.lengths[at(b)]));
    return length;
  }
  [[nodiscard]] long long q_row(int b, int row) const {
    return shape_.q_packed.empty() ? b * shape_.q_len + row : q_starts_[at(b)] + row;
  }
  [[nodiscard]] long long k_row(int b, int key) const {
    if (!shape_.k_packed.empty()) return k_starts_[at(b)] + key;
    if (shape_.page_log2 < 0) return static_cast<long long>(b) * shape_.kv_len + key;
    const int page = blocks_[at(b * blocks_row() + (key >> shape_.page_log2))];
    return (static_cast<long long>(page) << shape_.page_log2) +
           (key & ((1 << shape_.page_log2) - 1));
  }
  [[nodiscard]] int blocks_row() const {
    return (shape_.kv_len + (1 << shape_.page_log2) - 1) >> shape_.page_log2;
  }

  void make_keys() {
    const Shape& s = shape_;
    long long rows = static_cast<long long>(s.batch) * s.kv_len;
    int stride_rows = s.kv_len;
    if (!s.k_packed.empty()) rows = k_starts_.back();
    if (s.page_log2 >= 0) {
      rows = static_cast<long long>(make_pages()) << s.page_log2;
      stride_rows = 1 << s.page_log2;
    }
    k_.assign(at(rows * s.kv_heads * s.dim), nan());
    v_.assign(at(rows * s.kv_heads * s.value_dim), nan());
    const auto k = normal<Kv>(rows * s.kv_heads * s.dim, 2);
    const auto v = normal<Kv>(rows * s.kv_heads * s.value_dim, 3);
    for (int b = 0; b < s.batch; ++b)
      for (int key = 0; key < keys_of(b); ++key) {
        const long long row = k_row(b, key) * s.kv_heads;
        std::copy_n(&k[at(row * s.dim)], s.kv_heads * s.dim, &k_[at(row * s.dim)]);
        std::copy_n(&v[at(row * s.value_dim)], s.kv_heads * s.value_dim,
                    &v_[at(row * s.value_dim)]);
      }
    args.k_at = strides(stride_rows, s.kv_heads, s.dim);
    args.v_at = strides(stride_rows, s.kv_heads, s.value_dim);
  }

  // The number of pages, in a random order.
  int make_pages() {
    blocks_.assign(at(shape_.batch * blocks_row()), 1 << 30);
    std::vector<int*> used;
    for (int b = 0; b < shape_.batch; ++b)
      for (int key = 0; key < keys_of(b); key += 1 << shape_.page_log2)
        used.push_back(&blocks_[at(b * blocks_row() + (key >> shape_.page_log2))]);
    std::shuffle(used.begin(), used.end(), std::mt19937(4));
    for (std::size_t i = 0; i < used.size(); ++i) *used[i] = static_cast<int>(i);
    args.blocks = blocks_.data();
    args.blocks_row = blocks_row();
    args.page_log2 = shape_.page_log2;
    return static_cast<int>(used.size());
  }

  // Masks and biases are [batch, 1, q_len, kv_len] and [heads, q_len, kv_len], broadcast.
  void make_options() {
    const Shape& s = shape_;
    const long long area = static_cast<long long>(s.q_len) * s.kv_len;
    if (s.sinks) {
      sinks_ = normal<float>(s.heads, 5);
      args.sinks = sinks_.data();
    }
    if (s.mask) {
      std::mt19937 bits(6);
      for (long long i = 0; i < s.batch * area; ++i) mask_.push_back(bits() % 4 != 0);
      args.mask = reinterpret_cast<const bool*>(mask_.data());
      args.mask_at = {area, s.kv_len, 0};
      args.mask_step = 1;
    }
    if (s.bias) {
      bias_ = normal<float>(s.heads * area, 7);
      args.bias = bias_.data();
      args.bias_at = {0, s.kv_len, area};
      args.bias_step = 1;
    }
  }

  [[nodiscard]] static Kv nan() { return convert<Kv>(std::numeric_limits<float>::quiet_NaN()); }

  [[nodiscard]] double score(int b, int row, int head, int key) const {
    const Shape& s = shape_;
    const int kv_head = head / (s.heads / s.kv_heads);
    double dot = 0;
    for (int i = 0; i < s.dim; ++i)
      dot += static_cast<double>(to_compute(q_[at((q_row(b, row) * s.heads + head) * s.dim + i)])) *
             to_compute(k_[at((k_row(b, key) * s.kv_heads + kv_head) * s.dim + i)]);
    dot *= scale();
    if (s.softcap != 0.0f) dot = s.softcap * std::tanh(dot / s.softcap);
    const long long place = static_cast<long long>(row) * s.kv_len + key;
    if (s.bias) dot += bias_[at(static_cast<long long>(head) * s.q_len * s.kv_len + place)];
    return dot;
  }
  [[nodiscard]] bool sees(int b, int row, int key) const {
    const int own = row + keys_of(b) - queries_of(b);
    if (key < own - shape_.left || key > own + shape_.right) return false;
    return !shape_.mask ||
           mask_[at((static_cast<long long>(b) * shape_.q_len + row) * shape_.kv_len + key)] != 0;
  }

  [[nodiscard]] std::vector<double> expected(int b, int row, int head) const {
    const Shape& s = shape_;
    std::vector<double> result(at(s.value_dim), 0.0);
    double total = s.sinks ? std::exp(static_cast<double>(sinks_[at(head)])) : 0.0;
    for (int key = 0; key < keys_of(b); ++key) {
      if (!sees(b, row, key)) continue;
      const double weight = std::exp(score(b, row, head, key));
      total += weight;
      const long long from =
          (k_row(b, key) * s.kv_heads + head / (s.heads / s.kv_heads)) * s.value_dim;
      for (int i = 0; i < s.value_dim; ++i)
        result[at(i)] += weight * to_compute(v_[at(from + i)]) * s.v_scale;
    }
    for (double& x : result) x = total == 0.0 ? 0.0 : x / total;
    return result;
  }

  const Shape shape_;
  std::vector<T> q_, out_;
  std::vector<Kv> k_, v_;
  std::vector<int> q_starts_, k_starts_, blocks_;
  std::vector<float> sinks_, bias_;
  std::vector<unsigned char> mask_;
};

template <class T>
double tolerance_of() {
  if (kIsSame<T, float>) return 1e-5;
  return kIsSame<T, bfloat16> ? 2.5e-2 : 4e-3;
}

}  // namespace gpk::host_attention
