// The stand-ins of this folder for inline PTX: asynchronous copies, ldmatrix and mma.sync.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <random>

#include "common/cp_async.cuh"
#include "common/mma.cuh"

namespace gpk {
namespace {

template <class T>
std::vector<T> whole_numbers(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<T> values(count);
  for (T& value : values) value = convert<T>(static_cast<int>(bits() % 9) - 4);
  return values;
}

// C [16, 8] = A [16, k] B [8, k]^T, 32 bytes of k: exact in every type.
template <class T, class Acc = float>
void check_product(bool transposed) {
  constexpr int kK = 32 / static_cast<int>(sizeof(T));
  const auto a = whole_numbers<T>(16 * kK, 1);
  const auto b = whole_numbers<T>(16 * kK, 2);  // eight rows more: ldmatrix takes four matrices
  std::vector<T> b_in_memory = b;
  for (int n = 0; transposed && n < 16; ++n)
    for (int k = 0; k < kK; ++k)
      b_in_memory[static_cast<std::size_t>(k * 16 + n)] = b[static_cast<std::size_t>(n * kK + k)];
  std::vector<Acc> c(16 * 8);
  host_cuda::launch(1, 32, [&] {
    const unsigned shared = shared_address(dynamic_shared());
    const unsigned lane = threadIdx.x;
    cp_async<16>(shared + lane * 16, reinterpret_cast<const char*>(a.data()) + lane * 16);
    cp_async_commit();
    cp_async<16>(shared + 512 + lane * 16,
                 reinterpret_cast<const char*>(b_in_memory.data()) + lane * 16);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    unsigned from_a[4];
    unsigned from_b[4];
    load_matrices(from_a, shared + lane % 16 * 32 + lane / 16 * 16);
    if (transposed) {
      load_matrices_transposed(from_b, shared + 512 + lane % 16 * 32 + lane / 16 * 16);
    } else {
      load_matrices(from_b, shared + 512 + (lane / 16 * 8 + lane % 8) * 32 + lane / 8 % 2 * 16);
    }
    Acc acc[4] = {};
    Mma<T, T>::template run<0>(acc, from_a, from_b[0], from_b[1]);
    for (unsigned i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = acc[i];
  });
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      double want = 0;
      for (int k = 0; k < kK; ++k)
        want += static_cast<double>(to_compute(a[static_cast<std::size_t>(m * kK + k)])) *
                to_compute(b[static_cast<std::size_t>(n * kK + k)]);
      ASSERT_EQ(c[static_cast<std::size_t>(m * 8 + n)], want) << m << ", " << n;
    }
}

TEST(HostMma, Products) {
  check_product<float>(false);
  check_product<float16>(false);
  check_product<bfloat16>(false);
  check_product<float8_e4m3fn>(false);
  check_product<signed char, int>(false);
}

TEST(HostMma, TransposedMatrices) {
  check_product<float16>(true);
  check_product<bfloat16>(true);
}

TEST(HostMma, RoundsToTf32) {
  const auto rounded = [](float x) {
    return std::bit_cast<float>(round_to_tf32(std::bit_cast<unsigned>(x)));
  };
  EXPECT_EQ(rounded(1.0f + 0x1p-11f), 1.0f);  // halfway: to even
  EXPECT_EQ(rounded(1.0f + 3 * 0x1p-11f), 1.0f + 0x1p-9f);
  EXPECT_EQ(rounded(-1.0f - 0x1p-10f), -1.0f - 0x1p-10f);
}

TEST(HostCpAsync, ArrivesAtTheWaitAndNoSooner) {
  const std::array<unsigned, 4> from = {1, 2, 3, 4};
  host_cuda::launch(1, 1, [&] {
    unsigned char* const to = dynamic_shared();
    std::memset(to, 0xff, 16);
    const unsigned address = shared_address(to);
    unsigned word = 0;
    cp_async<16>(address, from.data(), 8);
    cp_async_commit();
    cp_async_wait<1>();
    load_shared(word, address);
    EXPECT_EQ(word, 0xffffffffu);
    cp_async_wait<0>();
    load_shared(word, address + 4);
    EXPECT_EQ(word, 2u);
    load_shared(word, address + 8);
    EXPECT_EQ(word, 0u);
  });
}

TEST(HostCuda, BlocksThatWaitForEachOther) {
  std::atomic<unsigned> arrived = 0;
  host_cuda::launch_together({3, 2, 1}, 2, [&] {
    ++arrived;
    while (arrived < 12) std::this_thread::yield();
    EXPECT_LT(blockIdx.x, gridDim.x);
    EXPECT_LT(blockIdx.y, gridDim.y);
  });
  EXPECT_EQ(arrived, 12u);
}

}  // namespace
}  // namespace gpk
