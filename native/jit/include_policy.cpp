#include "jit/include_policy.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "core/config.h"
#include "jit/include_scan.h"
#include "jit/nvrtc.h"
#include "jit/options.h"
#include "jit/untrusted_scan.h"

namespace gpk::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxShown = 200;

// NVRTC options that neither read nor write files. Those with a value take it as -x=v, "-x v" or in
// the next string.
constexpr std::array<std::string_view, 19> kFlags{"-use_fast_math",
                                                  "--use_fast_math",
                                                  "-extra-device-vectorization",
                                                  "-G",
                                                  "--device-debug",
                                                  "--extra-device-vectorization",
                                                  "-lineinfo",
                                                  "-default-device",
                                                  "--generate-line-info",
                                                  "-w",
                                                  "--restrict",
                                                  "--disable-warnings",
                                                  "-restrict",
                                                  "-device-int128",
                                                  "--device-as-default-execution-space",
                                                  "-minimal",
                                                  "--device-int128",
                                                  "--minimal",
                                                  "--display-error-number"};
constexpr std::array<std::string_view, 24> kValued{"-D",
                                                   "--define-macro",
                                                   "-U",
                                                   "--undefine-macro",
                                                   "-std",
                                                   "--std",
                                                   "-arch",
                                                   "--gpu-architecture",
                                                   "-maxrregcount",
                                                   "--maxrregcount",
                                                   "-ftz",
                                                   "--ftz",
                                                   "-prec-sqrt",
                                                   "--prec-sqrt",
                                                   "-prec-div",
                                                   "--prec-div",
                                                   "-fmad",
                                                   "--fmad",
                                                   "-diag-error",
                                                   "--diag-error",
                                                   "-diag-suppress",
                                                   "--diag-suppress",
                                                   "-diag-warn",
                                                   "--diag-warn"};
constexpr std::array<std::string_view, 4> kPaths{"-I", "--include-path", "-include",
                                                 "--pre-include"};

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; });
}

bool takes_value(std::string_view name, std::string_view option) {
  if (!option.starts_with(name)) return false;
  const std::string_view rest = option.substr(name.size());
  const bool glued = name == "-D" || name == "-U" || name == "-I";
  return rest.empty() || rest.front() == '=' || rest.front() == ' ' || glued;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

class Check {
 public:
  explicit Check(const CompileRequest& request) : request_(request) {
    for (const std::string& folder : *request.include_folders) allow(folder);
    search_ = *request.include_folders;
    const NvrtcSearch& found = find_nvrtc();
    if (found.nvrtc != nullptr && !found.nvrtc->include_folder.empty()) {
      cuda_ = found.nvrtc->include_folder;
      allow(cuda_);
    }
  }

  void run() {
    check_words();
    check_options();
    for (const std::string& path : include_paths(request_.options)) {
      std::error_code ec;  // otherwise "/allowed/x,/etc" would count as inside
      if (!is_allowed(path) || !fs::is_directory(path, ec)) refuse(cat("option -I ", path));
      search_.push_back(path);
    }
    if (!cuda_.empty()) {
      search_.push_back(cuda_);
      search_.push_back(cat(cuda_, "/cccl"));
    }
    const fs::path folder = fs::path(request_.name).parent_path();
    for (const std::string& name : pre_includes(request_.options))
      follow({name, true}, folder, true);
    scan(request_.source, folder);
    for (const SourceFile& header : request_.headers) scan(header.text, folder);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidArgument(
        cat("jit: ", shorten(request_.name, kMaxShown), ": ", shorten(what, kMaxShown),
            " is refused: only headers given with the source, CUDA's and those in ",
            request_.include_folders->empty() ? "no other folder"
                                              : join(*request_.include_folders, ", "),
            " may be included, by a plain #include (one in a comment counts)"));
  }

  void allow(const std::string& folder) {
    std::error_code ec;
    const fs::path path = fs::canonical(folder, ec);
    if (ec || !fs::is_directory(path, ec))
      throw InvalidArgument(cat("jit: include_folders: ", folder, " is not a folder"));
    allowed_.push_back(path);
  }

  [[nodiscard]] bool is_allowed(const fs::path& path) const {
    std::error_code ec;
    const fs::path real = fs::weakly_canonical(fs::absolute(path, ec), ec);
    return !ec && std::any_of(allowed_.begin(), allowed_.end(),
                              [&](const fs::path& folder) { return is_inside(real, folder); });
  }

  // NVRTC inserts both into text that it compiles.
  void check_words() const {
    if (has_control(request_.name)) refuse("a line end in the name");
    for (const std::string& expression : request_.name_expressions)
      if (has_control(expression)) refuse(cat("name expression ", expression));
  }

  void check_options() const {
    const std::vector<std::string> options = nvrtc_options(request_.options);
    const auto names_option = [](const auto& names, std::string_view option) {
      return std::any_of(names.begin(), names.end(),
                         [&](std::string_view name) { return takes_value(name, option); });
    };
    for (std::size_t i = 0; i < options.size(); ++i) {
      const std::string_view option = trim(options[i]);
      const bool flag = std::find(kFlags.begin(), kFlags.end(), option) != kFlags.end();
      const bool valued = names_option(kValued, option) || names_option(kPaths, option);
      if (has_control(option) || !(flag || valued)) refuse(cat("option ", option));
      const bool value_is_next =
          std::find(kValued.begin(), kValued.end(), option) != kValued.end() ||
          std::find(kPaths.begin(), kPaths.end(), option) != kPaths.end();
      if (!value_is_next) continue;
      ++i;
      if (i == options.size() || has_control(options[i])) refuse(cat("option ", option));
    }
  }

  void scan(std::string_view text, const fs::path& folder) {
    const UntrustedScan found = scan_untrusted(text);
    if (!found.refused.empty()) refuse(found.refused);
    for (const IncludeLine& line : found.includes) follow(line, folder, true);
  }

  // `untrusted`: written by the author of the source rather than found in an allowed folder, where
  // an unresolvable name is common (behind a conditional) and reads nothing.
  void follow(const IncludeLine& line, const fs::path& folder, bool untrusted) {
    const std::string shown =
        line.quoted ? cat("#include \"", line.name, "\"") : cat("#include <", line.name, ">");
    const bool given = std::any_of(request_.headers.begin(), request_.headers.end(),
                                   [&](const SourceFile& h) { return h.name == line.name; });
    if (given) return;
    std::vector<fs::path> folders(search_.begin(), search_.end());
    if (line.quoted) folders.insert(folders.begin(), {folder, fs::path()});
    bool found = false;
    for (const fs::path& base : folders) {
      const fs::path path = base / line.name;
      std::error_code ec;
      if (!fs::exists(fs::symlink_status(path, ec))) continue;
      if (!is_allowed(path)) refuse(shown);
      found = true;
      follow_file(path);
    }
    // Same message as above, or it would reveal which files exist.
    if (untrusted && !found) refuse(shown);
  }

  void follow_file(const fs::path& path) {
    if (!seen_.insert(path.lexically_normal().string()).second) return;
    const auto text = read_text(path.string());
    if (!text) return;
    for (const IncludeLine& line : scan_includes(*text)) {
      // The macro may be defined by the source.
      if (line.name.empty()) refuse(cat(path.string(), ", which has an #include of a macro,"));
      follow(line, path.parent_path(), false);
    }
  }

  const CompileRequest& request_;
  std::string cuda_;
  std::vector<fs::path> allowed_;
  std::vector<std::string> search_;
  std::set<std::string> seen_;
};

// The file of "name(12): error: ..."; empty for other lines.
std::string_view file_of(std::string_view line) {
  const std::size_t end = line.find("): ");
  const std::size_t begin = end == std::string_view::npos ? end : line.rfind('(', end);
  if (begin == std::string_view::npos || line.starts_with(' ')) return {};
  return line.substr(0, begin);
}

}  // namespace

void apply_include_policy(CompileRequest& request) {
  const auto& folders = Config::get().jit_includes;
  if (!folders) return;
  if (!request.include_folders) {
    request.include_folders = folders;
    return;
  }
  for (const std::string& folder : *request.include_folders) {
    std::error_code ec;
    const fs::path path = fs::weakly_canonical(fs::absolute(folder, ec), ec);
    const bool inside = std::any_of(folders->begin(), folders->end(), [&](const std::string& one) {
      return is_inside(path, fs::weakly_canonical(fs::absolute(one, ec), ec));
    });
    if (!inside)
      throw InvalidArgument(cat("jit: include_folders: ", folder,
                                " is outside of PYGPUKIT_JIT_INCLUDES (", join(*folders, ", "),
                                ")"));
  }
}

void check_includes(const CompileRequest& request) {
  if (request.include_folders) Check(request).run();
}

std::string without_excerpts(const std::string& log, const CompileRequest& request) {
  if (!request.include_folders) return log;
  std::string out;
  bool foreign = false;
  for (std::size_t begin = 0; begin < log.size();) {
    const std::size_t end = std::min(log.find('\n', begin), log.size());
    const std::string_view line = std::string_view(log).substr(begin, end - begin);
    if (const std::string_view file = file_of(line); !file.empty()) {
      foreign = file != request.name &&
                std::none_of(request.headers.begin(), request.headers.end(),
                             [&](const SourceFile& header) { return header.name == file; });
    }
    if (!foreign || !line.starts_with(' ')) out += cat(line, '\n');
    begin = end + 1;
  }
  return out;
}

}  // namespace gpk::jit
