#include "jit/include_scan.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "jit/include_policy.h"
#include "jit/options.h"
#include "jit/token.h"

namespace gpk::jit {
namespace {

namespace fs = std::filesystem;

// Joins continued lines, in one pass, since a source may consist of nothing else.
std::string join_lines(std::string text) {
  const std::string_view s = text;
  std::size_t kept = 0;
  for (std::size_t at = 0; at < s.size();) {
    const std::string_view rest = s.substr(at);
    if (rest.starts_with("\\\n") || rest.starts_with("\\\r\n")) {
      at += rest[1] == '\n' ? 2 : 3;
    } else {
      text[kept++] = s[at++];
    }
  }
  text.resize(kept);
  return text;
}

bool take_word(std::string_view& line, std::string_view word) {
  line = trim(line);
  if (!line.starts_with(word)) return false;
  line.remove_prefix(word.size());
  return true;
}

std::optional<IncludeLine> read_line(std::string_view line) {
  if (!take_word(line, "#")) return std::nullopt;
  if (!take_word(line, "include_next") && !take_word(line, "include") &&
      !take_word(line, "import")) {
    return std::nullopt;
  }
  line = trim(line);
  if (line.empty()) return std::nullopt;
  const char close = line.front() == '<' ? '>' : '"';
  const std::size_t end = line.find(close, 1);
  const bool literal = line.front() == '<' || line.front() == '"';
  if (!literal || end == std::string_view::npos) return IncludeLine{};
  return IncludeLine{std::string(line.substr(1, end - 1)), close == '"'};
}

// Values of an option in any of NVRTC's spellings: -Ix, "-I x", -I x, --long=x, --long x.
std::vector<std::string> option_values(const std::vector<std::string>& options,
                                       std::string_view short_name, std::string_view long_name,
                                       bool glued) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string_view option = trim(options[i]);
    for (const std::string_view name : {long_name, short_name}) {
      if (!option.starts_with(name)) continue;
      std::string_view rest = option.substr(name.size());
      if (rest.empty()) {
        if (i + 1 < options.size()) out.emplace_back(trim(options[++i]));
        break;
      }
      const bool separated = rest.front() == '=' || rest.front() == ' ';
      if (!separated && !(glued && name == short_name)) continue;
      if (separated) rest.remove_prefix(1);
      out.emplace_back(trim(rest));
      break;
    }
  }
  return out;
}

class Walker {
 public:
  Walker(const CompileRequest& request, const std::string& skip_folder)
      : skip_folder_(skip_folder.empty() ? std::string() : normal(skip_folder + "/")),
        search_(include_paths(request.options)) {
    if (request.include_folders)
      search_.insert(search_.end(), request.include_folders->begin(),
                     request.include_folders->end());
    for (const SourceFile& header : request.headers) headers_.insert(header.name);
    const fs::path folder = fs::path(request.name).parent_path();
    scan(request.source, folder);
    // A header not included by a literal name may still be reached by a computed include.
    for (const SourceFile& header : request.headers) scan(header.text, {});
    for (const std::string& name : pre_includes(request.options)) follow({name, true}, folder);
  }

  IncludeClosure take() {
    for (auto& [path, text] : files_) closure_.files.push_back({path, std::move(text)});
    return std::move(closure_);
  }

 private:
  static std::string normal(const fs::path& path) { return path.lexically_normal().string(); }

  void scan(std::string_view text, const fs::path& folder) {
    for (const IncludeLine& line : scan_includes(text)) follow(line, folder);
  }

  void follow(const IncludeLine& line, const fs::path& folder) {
    if (line.name.empty()) {
      closure_.complete = false;
      closure_.needs_folder = true;
      return;
    }
    // NVRTC prefers a header passed to it over any file of that name.
    if (headers_.contains(line.name)) return;
    bool found = false;
    std::vector<fs::path> folders;
    if (line.quoted) folders = {folder, fs::path()};
    folders.insert(folders.end(), search_.begin(), search_.end());
    for (const fs::path& base : folders) found = add_file(base / line.name) || found;
    closure_.needs_folder = closure_.needs_folder || !found;
  }

  bool add_file(const fs::path& path) {
    const std::string key = normal(path);
    if (files_.contains(key)) return true;
    if (!skip_folder_.empty() && key.starts_with(skip_folder_)) {
      std::error_code ec;
      return fs::is_regular_file(path, ec);
    }
    std::optional<std::string> text = read_text(path.string());
    if (!text) return false;
    // Map nodes are stable, so the view survives insertions by the scan.
    const std::string& kept = files_.emplace(key, std::move(*text)).first->second;
    scan(kept, path.parent_path());
    return true;
  }

  std::string skip_folder_;
  std::vector<std::string> search_;
  std::set<std::string> headers_;
  std::map<std::string, std::string> files_;
  IncludeClosure closure_;
};

}  // namespace

std::vector<IncludeLine> scan_includes(std::string_view source) {
  std::vector<IncludeLine> out;
  const std::string text = join_lines(blank_comments(source));
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (auto line = read_line(std::string_view(text).substr(begin, end - begin))) {
      out.push_back(std::move(*line));
    }
    begin = end + 1;
  }
  return out;
}

std::optional<std::string> read_text(const std::string& path) {
  std::error_code ec;
  if (!fs::is_regular_file(path, ec)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text;
  std::vector<char> block(std::size_t{1} << 16);
  // read() maps exceptions of the buffer (EIO) to badbit; iterators over the buffer do not.
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0)
    text.append(block.data(), static_cast<std::size_t>(file.gcount()));
  if (file.bad()) return std::nullopt;
  return text;
}

std::vector<std::string> include_paths(const std::vector<std::string>& options) {
  return option_values(nvrtc_options(options), "-I", "--include-path", true);
}

std::vector<std::string> pre_includes(const std::vector<std::string>& options) {
  return option_values(nvrtc_options(options), "-include", "--pre-include", false);
}

IncludeClosure include_closure(const CompileRequest& request, const std::string& skip_folder) {
  check_includes(request);
  return Walker(request, skip_folder).take();
}

}  // namespace gpk::jit
