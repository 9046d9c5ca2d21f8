#include "jit/options.h"

#include <array>
#include <cstddef>

#include "base/text.h"

namespace gpk::jit {
namespace {

// The value is glued to a short name, after '=' or a blank, or in the next string.
struct Default {
  std::string_view name;
  std::string_view value;
};

constexpr std::array<Default, 8> kDefaults{{{"-O", "3"},
                                            {"--optimize", "3"},
                                            {"-x", "cu"},
                                            {"--x", "cu"},
                                            {"-m", "64"},
                                            {"--machine", "64"},
                                            {"-arch", "native"},
                                            {"--gpu-architecture", "native"}}};

constexpr std::string_view kTarget = "the target is the GPU in use; -arch=sm_90 names another";
constexpr std::string_view kNoHost = "there is no host compiler";
constexpr std::string_view kNoLinker = "nothing is linked";
constexpr std::string_view kNoFile = "no file is written; kernel.ptx has the PTX";
constexpr std::string_view kLevel =
    "NVRTC compiles at -O3; --ptxas-options=-O1 lowers the level of the assembler";
constexpr std::string_view kUsage =
    "--ptxas-options=-v logs the resources of a kernel, kernel.attributes has them";
constexpr std::string_view kLambda = "a lambda inside a kernel needs no annotation";

struct Advice {
  std::string_view name;  // "-O*": every option that begins with -O
  std::string_view text;
};

constexpr std::array<Advice, 38> kAdvice{{
    {"-O*", kLevel},
    {"--optimize", kLevel},
    {"-gencode", kTarget},
    {"--generate-code", kTarget},
    {"-code", kTarget},
    {"--gpu-code", kTarget},
    {"-Xcompiler", kNoHost},
    {"--compiler-options", kNoHost},
    {"-ccbin", kNoHost},
    {"--compiler-bindir", kNoHost},
    {"-fPIC", kNoHost},
    {"-march", kNoHost},
    {"-W*", kNoHost},
    {"-Xlinker", kNoLinker},
    {"--linker-options", kNoLinker},
    {"-cudart", kNoLinker},
    {"--cudart", kNoLinker},
    {"-shared", kNoLinker},
    {"-l*", kNoLinker},
    {"-L*", kNoLinker},
    {"-c", kNoFile},
    {"-o", kNoFile},
    {"-ptx", kNoFile},
    {"--ptx", kNoFile},
    {"-cubin", kNoFile},
    {"--cubin", kNoFile},
    {"-fatbin", kNoFile},
    {"-keep", kNoFile},
    {"--keep", kNoFile},
    {"-E", kNoFile},
    {"-g", "-G and -lineinfo are those for device code"},
    {"-v", kUsage},
    {"-res-usage", kUsage},
    {"--resource-usage", kUsage},
    {"-isystem", "-I adds a folder of headers"},
    {"--expt-relaxed-constexpr", "-default-device compiles functions without annotation"},
    {"--extended-lambda", kLambda},
    {"--expt-extended-lambda", kLambda},
}};

constexpr std::string_view kKnown =
    "NVRTC's options are -D, -U, -I, -include, -std, -arch, -use_fast_math, -ftz, -fmad, "
    "-prec-div, "
    "-prec-sqrt, -maxrregcount, -lineinfo, -G, -default-device, -w, -diag-suppress, "
    "--ptxas-options and others in its documentation";

// How many strings from options[i] on spell a default: 0, 1 or 2.
std::size_t default_length(const std::vector<std::string>& options, std::size_t i) {
  const std::string_view option = trim(options[i]);
  for (const auto& [name, value] : kDefaults) {
    if (!option.starts_with(name)) continue;
    std::string_view rest = option.substr(name.size());
    if (rest.empty()) {
      if (i + 1 < options.size() && trim(options[i + 1]) == value) return 2;
      continue;
    }
    if (rest.front() == '=' || rest.front() == ' ') {
      rest.remove_prefix(1);
    } else if (name.size() > 2) {
      continue;
    }
    if (trim(rest) == value) return 1;
  }
  return 0;
}

bool names_option(std::string_view name, std::string_view option) {
  if (name.ends_with('*')) return option.starts_with(name.substr(0, name.size() - 1));
  return option.substr(0, option.find_first_of("= ")) == name;
}

// X of "nvrtc: error: unrecognized option X found"; empty for other logs.
std::string_view unrecognized_option(std::string_view log) {
  constexpr std::string_view kBefore = "unrecognized option ";
  const std::size_t found = log.find(kBefore);
  if (found == std::string_view::npos) return {};
  const std::string_view rest = log.substr(found + kBefore.size());
  return rest.substr(0, rest.find(" found"));
}

}  // namespace

std::vector<std::string> nvrtc_options(const std::vector<std::string>& options) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < options.size(); ++i) {
    if (const std::size_t length = default_length(options, i); length > 0) {
      i += length - 1;
      continue;
    }
    const std::string_view option = trim(options[i]);
    if ((option == "-std" || option == "--std") && i + 1 < options.size()) {
      out.push_back(cat(option, '=', trim(options[++i])));
    } else {
      out.push_back(options[i]);
    }
  }
  return out;
}

std::string explain_invalid_option(std::string_view log) {
  const std::string_view option = unrecognized_option(log);
  if (option.empty()) return cat(trim(log), ". ", kKnown);
  std::string out = cat("NVRTC does not accept ", option);
  for (const auto& [name, text] : kAdvice) {
    if (!names_option(name, option)) continue;
    out += cat(": ", text);
    break;
  }
  return cat(out, ". ", kKnown);
}

}  // namespace gpk::jit
