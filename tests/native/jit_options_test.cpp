// Options as written for nvcc, and the errors for those NVRTC does not have.
#include "jit/options.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpk::jit {
namespace {

using Options = std::vector<std::string>;

TEST(NvrtcOptions, DefaultsInNvccSpellingAreDropped) {
  for (const Options& options :
       {Options{"-O3"}, Options{"-O=3"}, Options{"-O 3"}, Options{"-O", "3"}, Options{" -O3 "},
        Options{"--optimize=3"}, Options{"--optimize", "3"}, Options{"-x", "cu"}, Options{"-x=cu"},
        Options{"-m64"}, Options{"--machine=64"}, Options{"-arch=native"},
        Options{"--gpu-architecture", "native"}}) {
    EXPECT_EQ(nvrtc_options(options), Options{}) << options.front();
    Options between{"-DX=1"};
    between.insert(between.end(), options.begin(), options.end());
    between.emplace_back("-lineinfo");
    EXPECT_EQ(nvrtc_options(between), (Options{"-DX=1", "-lineinfo"})) << options.front();
  }
}

TEST(NvrtcOptions, TheRestIsLeftToNvrtc) {
  const Options options{"-O2",     "-O",    "-O0",        "--optimize=2",
                        "-m32",    "-arch", "sm_90",      "-maxrregcount=32",
                        "-Xptxas", "-O3x",  "-std=c++17", "--no-such-option",
                        ""};
  EXPECT_EQ(nvrtc_options(options), options);
}

TEST(NvrtcOptions, TheLanguageInTwoStrings) {
  EXPECT_EQ(nvrtc_options({"-std", "c++20"}), Options{"-std=c++20"});
  EXPECT_EQ(nvrtc_options({"--std", " c++14 ", "-w"}), (Options{"--std=c++14", "-w"}));
  EXPECT_EQ(nvrtc_options({"-std"}), Options{"-std"});
}

std::string why(const std::string& option) {
  return explain_invalid_option("nvrtc: error: unrecognized option " + option + " found\n");
}

TEST(ExplainInvalidOption, NamesTheOptionAndWhatToWrite) {
  EXPECT_TRUE(why("-O2").starts_with("NVRTC does not accept -O2: NVRTC compiles at -O3; "));
  EXPECT_TRUE(why("-Xcompiler=-Wall")
                  .starts_with("NVRTC does not accept -Xcompiler=-Wall: there is no host compiler. "
                               "NVRTC's options are -D, "));
  EXPECT_NE(why("-gencode=arch=compute_90,code=sm_90").find("-arch=sm_90"), std::string::npos);
  EXPECT_NE(why("-c").find("no file is written"), std::string::npos);
  EXPECT_NE(why("-code=sm_90").find("the target is the GPU in use"), std::string::npos);
  EXPECT_NE(why("-lcudart").find("nothing is linked"), std::string::npos);
}

TEST(ExplainInvalidOption, OtherOptionsAndOtherLogs) {
  EXPECT_TRUE(
      why("--nonsense").starts_with("NVRTC does not accept --nonsense. NVRTC's options are"));
  const std::string text = explain_invalid_option("nvrtc: error: invalid value for -arch\n");
  EXPECT_TRUE(text.starts_with("nvrtc: error: invalid value for -arch. NVRTC's options are"));
}

}  // namespace
}  // namespace gpk::jit
