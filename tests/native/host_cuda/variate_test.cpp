// The kernels of native/kernels/random/variate.cuh and the functors of elementwise/special.cuh that
// are not CUDA's own, on the host. The numbers are those of pygpukit/_reference/variates.py, whose
// distributions are tested against SciPy's.
#include "host_cuda/host_cuda.h"
// First: CUDA's built-ins.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

// Not in the host's math library.
static double cospi(double x) { return std::cos(std::numbers::pi * x); }
static double sinpi(double x) { return std::sin(std::numbers::pi * x); }
static float cospi(float x) { return static_cast<float>(cospi(static_cast<double>(x))); }
static float sinpi(float x) { return static_cast<float>(sinpi(static_cast<double>(x))); }
using std::isinf;

// The host's own writes a global sign, which threads race for.
namespace gpk {
static double lgamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}
}  // namespace gpk

#include "elementwise/special.cuh"
#include "random/variate.cuh"

namespace gpk {
namespace {

constexpr RandomStream kStream{{0x76543210u, 0xFEDCBA98u}, ~0ull - 2, 0, 0};

template <class T, class Draw>
std::vector<T> draw(long long count, VariateArgs args, unsigned grid = 1) {
  std::vector<T> out(static_cast<std::size_t>(count));
  host_cuda::launch(grid, kVariateThreads,
                    [&] { variate_kernel<T, Draw>(out.data(), count, kStream, args); });
  return out;
}

VariateArgs numbers(double first, double second = 0.0) { return {nullptr, nullptr, first, second}; }

void expect_close(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i] / want[i], 1.0, 1e-13) << i;
}

TEST(Variates, AreThoseOfTheReference) {
  expect_close(draw<double, GammaDraw>(6, numbers(2.5, 0.3)),
               {1.5933398438418356, 0.9556145455331271, 0.6866131560255823, 0.6736554599552296,
                1.1604401792682197, 0.3005889625393651});
  expect_close(draw<double, GammaDraw>(6, numbers(0.2, 1.0)),
               {5.399738728747333e-06, 0.9986674915101542, 0.04784071422174014, 0.5514822560007872,
                0.0010503911765613572, 0.00039659359251298626});
  using Whole = std::vector<long long>;
  EXPECT_EQ((draw<long long, PoissonDraw>(8, numbers(3.5))), (Whole{2, 3, 7, 4, 3, 2, 1, 1}));
  EXPECT_EQ((draw<long long, PoissonDraw>(8, numbers(4000.0))),
            (Whole{3964, 3981, 4136, 4022, 4000, 3963, 3918, 3962}));
  EXPECT_EQ((draw<long long, BinomialDraw>(8, numbers(7, 0.3))), (Whole{1, 2, 4, 2, 2, 1, 1, 0}));
  EXPECT_EQ((draw<long long, BinomialDraw>(8, numbers(10000, 0.98))),
            (Whole{9808, 9804, 9770, 9795, 9800, 9808, 9818, 9809}));
}

TEST(Variates, DoNotDependOnTheGrid) {
  const auto whole = draw<long long, PoissonDraw>(1000, numbers(25.0), 4);
  EXPECT_EQ((draw<long long, PoissonDraw>(1000, numbers(25.0), 1)), whole);
  const auto part = draw<long long, PoissonDraw>(77, numbers(25.0), 2);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin()));
}

TEST(Variates, TakeArrays) {
  const std::vector<double> n{7, 10000, 7, 0, -1, 5, NAN};
  const std::vector<double> p{0.3, 0.98, 1.0, 0.5, 0.5, 1.5, 0.5};
  const auto got = draw<long long, BinomialDraw>(7, {n.data(), p.data(), 0, 0});
  EXPECT_EQ(got, (std::vector<long long>{1, 9804, 7, 0, -1, -1, -1}));
  const std::vector<double> shape{2.5, 0.0, -1.0, INFINITY};
  const auto gammas = draw<float, GammaDraw>(4, {shape.data(), nullptr, 0, 0.3});
  EXPECT_NEAR(gammas[0], 1.5933398f, 1e-6f);
  EXPECT_EQ(gammas[1], 0.0f);
  EXPECT_TRUE(std::isnan(gammas[2]));
  EXPECT_TRUE(std::isinf(gammas[3]));
}

// Means and variances of many, within five standard errors.
TEST(Variates, HaveTheirMoments) {
  const auto check = [](const std::vector<long long>& x, double mean, double variance) {
    double sum = 0, squares = 0;
    for (const long long v : x) {
      sum += static_cast<double>(v) - mean;
      squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
    }
    const auto count = static_cast<double>(x.size());
    EXPECT_LT(std::abs(sum / count), 5 * std::sqrt(variance / count));
    EXPECT_NEAR(squares / count / variance, 1.0, 0.06);
  };
  check(draw<long long, PoissonDraw>(20000, numbers(0.3)), 0.3, 0.3);
  check(draw<long long, PoissonDraw>(20000, numbers(33.3)), 33.3, 33.3);
  check(draw<long long, PoissonDraw>(20000, numbers(1e15)), 1e15, 1e15);
  check(draw<long long, BinomialDraw>(20000, numbers(20, 0.9)), 18.0, 1.8);
  check(draw<long long, BinomialDraw>(20000, numbers(0x1p50, 0.25)), 0x1p48, 0x1p50 * 0.1875);
}

// Against values to 20 digits.
template <class T>
void check_special(T units) {
  const T eps = std::numeric_limits<T>::epsilon();
  const auto near = [&](T got, double want) {
    EXPECT_NEAR(static_cast<double>(got), want, units * eps * std::max(1.0, std::abs(want)));
  };
  const auto digamma = [](double x) { return Digamma::run<T>(static_cast<T>(x)); };
  near(digamma(1.0), -0.57721566490153286061);
  near(digamma(0.5), -1.9635100260214234794);
  near(digamma(0.0625), -16.478853490060104367);
  near(digamma(25.0), 3.1987425128519740085);
  near(digamma(-0.5), 0.036489973978576520559);
  near(digamma(-3.75), -1.6923885983113303432);
  near(digamma(1e6), 13.815510057964190771);
  EXPECT_TRUE(std::isnan(digamma(-2.0)));
  EXPECT_EQ(digamma(0.0), -std::numeric_limits<T>::infinity());
  EXPECT_EQ(digamma(-0.0), std::numeric_limits<T>::infinity());
  EXPECT_EQ(digamma(INFINITY), std::numeric_limits<T>::infinity());
  EXPECT_TRUE(std::isnan(digamma(-INFINITY)));
  near(Logit::run<T>(T(0.25)), -1.0986122886681098);
  near(Logit::run<T>(T(0.5)), 0.0);
  near(Logit::run<T>(T(0.5625)), 0.25131442828090605);
  EXPECT_EQ(Logit::run<T>(T(1)), std::numeric_limits<T>::infinity());
  EXPECT_TRUE(std::isnan(Logit::run<T>(T(1.5))));
  near(Sinc::run<T>(T(0.5)), 0.63661977236758134308);
  EXPECT_EQ(Sinc::run<T>(T(0)), T(1));
  near(Entr::run<T>(T(0.5)), 0.34657359027997265);
  EXPECT_EQ(Entr::run<T>(T(-1)), -std::numeric_limits<T>::infinity());
  EXPECT_EQ(Xlogy::run<T>(T(0), T(0)), T(0));
  EXPECT_TRUE(std::isnan(Xlogy::run<T>(T(0), std::numeric_limits<T>::quiet_NaN())));
  near(Xlog1py::run<T>(T(2), T(0.5)), 0.81093021621632877);
}

TEST(SpecialFunctions, OnTheHost) {
  check_special<double>(6.0);
  check_special<float>(6.0f);
}

}  // namespace
}  // namespace gpk
