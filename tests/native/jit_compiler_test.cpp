#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#ifndef _WIN32
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "base/error.h"
#include "core/compile_scope.h"
#include "core/config.h"
#include "core/interrupt.h"
#include "jit/compiler.h"
#include "jit/nvrtc.h"
#include "jit/ptx_entry.h"
#include "temp_folder.h"

namespace gpk::jit {
namespace {

CompileRequest request_for(std::string source, int sm = 90) {
  CompileRequest request;
  request.name = "test.cu";
  request.source = std::move(source);
  request.sm = sm;
  return request;
}

const std::string kScale = "extern \"C\" __global__ void scale(float* x, float a) { x[0] *= a; }";

bool has_flag(const std::vector<std::string>& flags, const std::string& flag) {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

Nvrtc known(std::vector<int> archs) {
  Nvrtc out;
  out.major = 13;
  out.archs = std::move(archs);
  return out;
}

TEST(CompileFlags, Target) {
  const Nvrtc nvrtc = known({75, 80, 89, 90, 100, 120});
  const auto target = [&](int sm, bool want_ptx = false) {
    CompileRequest request = request_for(kScale, sm);
    request.want_ptx = want_ptx;
    return compile_flags(request, nvrtc).at(0);
  };
  EXPECT_EQ(target(80), "--gpu-architecture=sm_80");
  EXPECT_EQ(target(90), "--gpu-architecture=sm_90a");
  EXPECT_EQ(target(120), "--gpu-architecture=sm_120a");
  EXPECT_EQ(target(80, true), "--gpu-architecture=compute_80");
  EXPECT_EQ(target(90, true), "--gpu-architecture=compute_90a");
  EXPECT_EQ(target(130), "--gpu-architecture=compute_120");
  EXPECT_EQ(target(103), "--gpu-architecture=compute_100");
  EXPECT_EQ(target(70), "--gpu-architecture=sm_70");
  Nvrtc old = known({80, 90});
  old.major = 11;
  EXPECT_EQ(compile_flags(request_for(kScale, 90), old).at(0), "--gpu-architecture=sm_90");
  EXPECT_EQ(compile_flags(request_for(kScale, 999), known({})).at(0), "--gpu-architecture=sm_999a");
}

TEST(CompileFlags, CallersOptionsWin) {
  const Nvrtc nvrtc = known({90});
  CompileRequest request = request_for(kScale);
  EXPECT_TRUE(has_flag(compile_flags(request, nvrtc), "--std=c++17"));
  for (const char* arch : {"-arch=sm_80", "--gpu-architecture=compute_80", "-arch"}) {
    request.options = {arch, "-std=c++20"};
    EXPECT_EQ(compile_flags(request, nvrtc), request.options) << arch;
  }
}

TEST(CompileFlags, HeadersOnlyWhereNeeded) {
  Nvrtc nvrtc = known({90});
  nvrtc.include_folder = "/cuda/include";
  const std::string flag = "--include-path=/cuda/include";
  EXPECT_FALSE(has_flag(compile_flags(request_for(kScale), nvrtc), flag));
  CompileRequest request = request_for("#include \"mine.h\"\n" + kScale);
  EXPECT_TRUE(has_flag(compile_flags(request, nvrtc), flag));
  request.headers = {{"mine.h", "int x();"}};
  EXPECT_FALSE(has_flag(compile_flags(request, nvrtc), flag));
  request.headers[0].text = "#include <cuda_fp16.h>\n";
  EXPECT_TRUE(has_flag(compile_flags(request, nvrtc), flag));
}

TEST(PtxVersion, Lowered) {
  const auto lower = [](const std::string& version, const std::string& target) {
    const std::string ptx =
        lower_ptx_version("// .version 1.0\n.version " + version + "\n.target " + target +
                          "\n.address_size 64\n" + std::string(1, '\0'));
    EXPECT_EQ(ptx.back(), '\0');
    const std::size_t at = ptx.find("\n.version ") + 10;
    return ptx.substr(at, ptx.find('\n', at) - at);
  };
  EXPECT_EQ(lower("9.4", "sm_80"), "7.0");
  EXPECT_EQ(lower("9.4", "sm_86"), "7.1");
  EXPECT_EQ(lower("9.4", "sm_89"), "7.8");
  EXPECT_EQ(lower("9.0", "sm_90"), "7.8");
  EXPECT_EQ(lower("9.0", "sm_90a"), "8.0");
  EXPECT_EQ(lower("9.0", "sm_100a"), "8.6");
  EXPECT_EQ(lower("9.0", "sm_120a, debug"), "8.7");
  EXPECT_EQ(lower("10.1", "sm_80"), "7.0");
  EXPECT_EQ(lower("6.5", "sm_80"), "6.5");
  EXPECT_EQ(lower("9.4", "sm_999"), "9.4");
  EXPECT_EQ(lower_ptx_version("no ptx"), "no ptx");
  EXPECT_EQ(lower_ptx_version(""), "");
}

TEST(PtxEntry, KeepsOneKernel) {
  const std::string head = ".version 8.0\n.target sm_90a\n\n";
  const auto kernel = [](const std::string& name) {
    return ".visible .entry " + name +
           "(\n.param .u64 p\n)\n{\n\tmov.b64 {%r1, %r2}, %rd1;\n// begin inline asm {\n{\n.reg "
           ".pred q;\n}\n// end inline asm\n\t.pragma \"a } in a string\";\n\tret;\n\n}\n";
  };
  const std::string both = head + kernel("one") + "\n.global .u32 x;\n" + kernel("two");
  EXPECT_EQ(keep_entry(both, "two"), head + "\n.global .u32 x;\n" + kernel("two"));
  EXPECT_EQ(keep_entry(both, "one"), head + kernel("one") + "\n.global .u32 x;\n");
  EXPECT_THROW(keep_entry(both, "thr"), Error);
  EXPECT_THROW(keep_entry(head + ".visible .entry one()\n{\n{ret;\n}\n", "one"), Error);
}

TEST(PtxVersion, KeepsWhatFeaturesNeed) {
  const std::string text =
      "\n.target sm_80\n\tcp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16;\n";
  EXPECT_EQ(lower_ptx_version(".version 9.4" + text), ".version 7.4" + text);
  EXPECT_EQ(lower_ptx_version(".version 7.2" + text), ".version 7.2" + text);
}

TEST(PtxVersion, LosesHintsThatCameLater) {
  EXPECT_EQ(lower_ptx_version(".version 9.4\n.target sm_80\n"
                              "\t.pragma \"nounroll\";\n"
                              "\t.pragma \"used_bytes_mask 0xf\";\n"
                              "\tret;\n"),
            ".version 7.0\n.target sm_80\n\t.pragma \"nounroll\";\n\tret;\n");
}

// An NVRTC made of functions of this file.
std::atomic<int> fake_compiles{0};
std::atomic<int> fake_result{0};
std::atomic<int> fake_failures{0};
std::atomic<int> fake_ms{20};

int fake_create(NvrtcProgram*, const char*, const char*, int, const char* const*,
                const char* const*) {
  return 0;
}
int fake_destroy(NvrtcProgram*) { return 0; }
int fake_add(NvrtcProgram, const char*) { return 0; }
int fake_compile(NvrtcProgram, int, const char* const*) {
  std::this_thread::sleep_for(std::chrono::milliseconds(fake_ms));
  return ++fake_compiles <= fake_failures ? fake_result.load() : 0;
}
int fake_lowered(NvrtcProgram, const char* expression, const char** symbol) {
  *symbol = expression;
  return 0;
}
int fake_size(NvrtcProgram, std::size_t* bytes) {
  *bytes = 4;
  return 0;
}
int fake_text(NvrtcProgram, char* text) {
  std::memcpy(text, "abc", 4);
  return 0;
}

class FakeNvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    nvrtc_.major = 13;
    nvrtc_.archs = {80, 90};
    NvrtcApi& api = nvrtc_.api;
    api.nvrtcCreateProgram = fake_create;
    api.nvrtcDestroyProgram = fake_destroy;
    api.nvrtcAddNameExpression = fake_add;
    api.nvrtcCompileProgram = fake_compile;
    api.nvrtcGetLoweredName = fake_lowered;
    api.nvrtcGetProgramLogSize = api.nvrtcGetPTXSize = api.nvrtcGetCUBINSize = fake_size;
    api.nvrtcGetProgramLog = api.nvrtcGetPTX = api.nvrtcGetCUBIN = fake_text;
    set_nvrtc_for_testing(&nvrtc_);
    fake_compiles = 0;
    fake_failures = 0;
    fake_ms = 20;
    use_cache_dir(folder_.path().string());
  }
  void TearDown() override {
    set_nvrtc_for_testing(nullptr);
    use_cache_dir("");
  }
  static void use_cache_dir(const std::string& folder) {
#ifdef _WIN32
    _putenv_s("PYGPUKIT_CACHE_DIR", folder.c_str());
#else
    if (folder.empty()) {
      unsetenv("PYGPUKIT_CACHE_DIR");
    } else {
      setenv("PYGPUKIT_CACHE_DIR", folder.c_str(), 1);
    }
#endif
    Config::reset_for_testing();
  }
  NvrtcCode failing(NvrtcCode code, int failures) {
    fake_result = static_cast<int>(code);
    fake_failures = failures;
    fake_compiles = 0;
    try {
      compile(request_for(kScale));
      return NvrtcCode::kSuccess;
    } catch (const NvrtcError& e) {
      return e.code();
    }
  }
  Nvrtc nvrtc_;
  const TempFolder folder_{"compiler"};
};

TEST_F(FakeNvrtc, RetriesWhatMayPass) {
  EXPECT_EQ(failing(NvrtcCode::kInternalError, 2), NvrtcCode::kSuccess);
  EXPECT_EQ(fake_compiles, 3);
  EXPECT_EQ(failing(NvrtcCode::kOutOfMemory, 9), NvrtcCode::kOutOfMemory);
  EXPECT_EQ(fake_compiles, 3);
  EXPECT_EQ(failing(NvrtcCode::kBuiltinOperationFailure, 1), NvrtcCode::kSuccess);
  EXPECT_EQ(failing(NvrtcCode::kCompilation, 1), NvrtcCode::kCompilation);
  EXPECT_EQ(fake_compiles, 1);
  EXPECT_EQ(failing(NvrtcCode::kInvalidOption, 1), NvrtcCode::kInvalidOption);
  EXPECT_EQ(fake_compiles, 1);
}

TEST_F(FakeNvrtc, RacingThreadsCompileOnceAndFailuresAreNotKept) {
  const CompileRequest request = request_for(kScale);
  fake_result = static_cast<int>(NvrtcCode::kCompilation);
  fake_failures = 2;
  EXPECT_THROW(compile_cached(request), CompileError);
  EXPECT_THROW(compile_cached(request), CompileError);
  EXPECT_EQ(fake_compiles, 2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(compile_cached(request).bytes.size(), 4u); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake_compiles, 3);
}

struct Interrupted {};

TEST_F(FakeNvrtc, WhoWaitsCanLeaveAndTheCompileGoesOn) {
  const CompileRequest request = request_for(kScale);
  fake_ms = 400;
  set_interrupt_hook([] { throw Interrupted(); });
  EXPECT_THROW(compile_cached(request), Interrupted);
  EXPECT_THROW(compile_cached(request), Interrupted);  // waits for the same compile
  EXPECT_EQ(fake_compiles, 0);
  set_interrupt_hook([] {});
  EXPECT_EQ(compile_cached(request).bytes.size(), 4u);
  EXPECT_EQ(compile_cached(request).bytes.size(), 4u);  // from the cache
  EXPECT_EQ(fake_compiles, 1);
  set_interrupt_hook(nullptr);
}

#ifndef _WIN32
// Runs `body` in a forked child; its exit status.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang ends by SIGALRM
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(FakeNvrtc, ChildForkedDuringACompileGetsAnError) {
  fake_ms = 300;
  std::thread compiling([] { compile_cached(request_for(kScale)); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(in_child([] {
              try {
                compile_cached(request_for(kScale));  // the one that is in the air
                return false;
              } catch (const NvrtcError& error) {
                return error.code() == NvrtcCode::kNotLoaded &&
                       std::string(error.what()).find("forked") != std::string::npos;
              }
            }),
            0);
  compiling.join();
  EXPECT_EQ(in_child([] { return compile_cached(request_for("other")).bytes.size() == 4; }), 0);
}

TEST_F(FakeNvrtc, CloseWaitsForWhoIsInsideAndLetsNobodyIn) {
  fake_ms = 300;
  EXPECT_EQ(in_child([] {  // for good, so not in this process
              std::thread([] { compile_cached(request_for(kScale)); }).detach();
              std::this_thread::sleep_for(std::chrono::milliseconds(100));
              end_compiles();
              const int at_close = fake_compiles;
              std::thread([] { compile_cached(request_for("other")); }).detach();
              std::this_thread::sleep_for(std::chrono::milliseconds(500));
              return at_close == 1 && fake_compiles == 1;
            }),
            0);
}
#endif

class RealNvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_nvrtc().nvrtc == nullptr) GTEST_SKIP() << "no NVRTC here";
  }
};

TEST_F(RealNvrtc, Cubin) {
  const CompiledImage image = compile(request_for(kScale));
  EXPECT_EQ(image.kind, CompiledImage::Kind::kCubin);
  EXPECT_EQ(image.bytes.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_EQ(image.symbol("scale"), "scale");
}

TEST_F(RealNvrtc, NameExpressionsAndHeaders) {
  CompileRequest request = request_for("#include \"lib/op.h\"\n");
  request.headers = {{"lib/op.h", "template <class T> __global__ void f(T* x) { *x = T(1); }\n"}};
  request.name_expressions = {"f<float>", "f<int>"};
  const CompiledImage image = compile(request);
  EXPECT_EQ(image.symbol("f<float>"), "_Z1fIfEvPT_");
  EXPECT_EQ(image.symbol("f<int>"), "_Z1fIiEvPT_");
}

TEST_F(RealNvrtc, PtxWhereAskedOrUnknown) {
  CompileRequest request = request_for(kScale, 80);
  request.want_ptx = true;
  CompiledImage image = compile(request);
  EXPECT_EQ(image.kind, CompiledImage::Kind::kPtx);
  EXPECT_EQ(image.bytes.back(), '\0');
  EXPECT_NE(image.bytes.find(".target sm_80"), std::string::npos);
  EXPECT_NE(lower_ptx_version(image.bytes).find(".version 7.0\n"), std::string::npos);
  if (nvrtc().archs.empty()) return;
  image = compile(request_for(kScale, 990));
  EXPECT_EQ(image.kind, CompiledImage::Kind::kPtx);
  request = request_for(kScale);
  request.options = {"-arch=compute_80"};
  EXPECT_EQ(compile(request).kind, CompiledImage::Kind::kPtx);
}

TEST_F(RealNvrtc, ErrorsCarryLogSourceAndFlags) {
  try {
    compile(request_for("__global__ void f() { undeclared = 1; }"));
    FAIL();
  } catch (const CompileError& e) {
    EXPECT_EQ(e.code(), NvrtcCode::kCompilation);
    EXPECT_NE(e.log().find("undeclared"), std::string::npos);
    EXPECT_TRUE(has_flag(e.flags(), "--std=c++17"));
    EXPECT_NE(std::string(e.what()).find("test.cu"), std::string::npos);
  }
  CompileRequest request = request_for(kScale);
  request.options = {"--no-such-option"};
  try {
    compile(request);
    FAIL();
  } catch (const NvrtcError& e) {
    EXPECT_EQ(e.code(), NvrtcCode::kInvalidOption);
    EXPECT_NE(std::string(e.what()).find("--no-such-option"), std::string::npos);
  }
  EXPECT_THROW(compile(request_for("")), InvalidArgument);
}

TEST_F(RealNvrtc, CudaHeadersWorkOrTheErrorSaysWhatToInstall) {
  const CompileRequest request =
      request_for("#include <cuda_fp16.h>\n__global__ void f(__half* x) { x[0] = x[1] + x[2]; }");
  const Nvrtc real = nvrtc();
  if (!real.include_folder.empty()) {
    EXPECT_EQ(compile(request).kind, CompiledImage::Kind::kCubin);
  }
  Nvrtc bare = real;
  bare.include_folder.clear();
  set_nvrtc_for_testing(&bare);
  try {
    compile(request);
    ADD_FAILURE() << "this NVRTC has headers of its own";
  } catch (const CompileError& e) {
    EXPECT_NE(e.log().find("pip install \"nvidia-cuda-runtime"), std::string::npos) << e.log();
  }
  set_nvrtc_for_testing(nullptr);
}

}  // namespace
}  // namespace gpk::jit
