#include "ops/matmul/tuning.h"

#include <charconv>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "core/log.h"
#include "core/private_folder.h"
#include "core/text.h"
#include "jit/digest.h"
#include "ops/matmul/plan_cache.h"

namespace gpk::ops {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSchema = "pygpukit-matmul-tuning 1";
constexpr std::string_view kFileName = "matmul.tune";
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{16} << 20;  // 100,000 choices

PrivateFolder folder_of(const fs::path& path) {
  return PrivateFolder(path.has_parent_path() ? path.parent_path().string() : ".");
}

std::string header(std::string_view body) {
  return cat(kSchema, " ", GPK_VERSION, " ", jit::sha256_hex(body));
}

std::string plan_fields(const MatmulPlan& p) {
  return cat(name(p.engine), " ", static_cast<int>(p.kernel), " ", static_cast<int>(p.transpose),
             " ", static_cast<int>(p.fused), " ", p.tile_m, " ", p.tile_n, " ", p.tile_k, " ",
             p.stages, " ", p.cluster, " ", p.group, " ", p.splits, " ", p.k_per_split);
}

std::optional<MatmulEngine> engine_named(std::string_view text) {
#define GPK_ENGINE(name) \
  if (text == #name) return MatmulEngine::name;
#include "ops/matmul/engines.def"
#undef GPK_ENGINE
  return std::nullopt;
}

std::string_view next_field(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view field = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return field;
}

template <class T>
bool read_number(std::string_view& rest, T& out) {
  const std::string_view field = next_field(rest, ' ');
  const auto [end, problem] = std::from_chars(field.data(), field.data() + field.size(), out);
  return problem == std::errc() && end == field.data() + field.size();
}

bool read_plan(std::string_view rest, MatmulPlan& plan) {
  const auto engine = engine_named(next_field(rest, ' '));
  if (!engine) return false;
  plan.engine = *engine;
  int transpose = 0, fused = 0;
  const bool ok = read_number(rest, plan.kernel) && read_number(rest, transpose) &&
                  read_number(rest, fused) && read_number(rest, plan.tile_m) &&
                  read_number(rest, plan.tile_n) && read_number(rest, plan.tile_k) &&
                  read_number(rest, plan.stages) && read_number(rest, plan.cluster) &&
                  read_number(rest, plan.group) && read_number(rest, plan.splits) &&
                  read_number(rest, plan.k_per_split) && rest.empty();
  plan.transpose = transpose != 0;
  plan.fused = fused != 0;
  return ok;
}

// key TAB plan TAB us native_us
bool read_line(std::string_view line, TuningTable& table) {
  const std::string_view key = next_field(line, '\t');
  TunedPlan tuned;
  if (key.empty() || !read_plan(next_field(line, '\t'), tuned.plan)) return false;
  if (!read_number(line, tuned.us) || !read_number(line, tuned.native_us) || !line.empty())
    return false;
  tuned.plan.predicted_us = static_cast<float>(tuned.us);
  table.insert_or_assign(std::string(key), tuned);
  return true;
}

struct State {
  std::mutex mutex;
  bool loaded = false;
  std::string path;
  TuningTable table;
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

void load_once(State& s) {
  const std::string path = tuning_path();
  if (s.loaded && s.path == path) return;
  s.table = path.empty() ? TuningTable{} : read_tuning_file(path);
  s.path = path;
  s.loaded = true;
}

}  // namespace

std::string tuning_key(const MatmulDesc& desc, const Machine& machine) {
  return cat("sm_", machine.sm, " ", machine.sms, " ", to_string(desc));
}

TuningTable read_tuning_file(const std::string& path) {
  const auto text = folder_of(path).read(fs::path(path).filename().string(), kMaxFileBytes);
  if (!text) return {};
  std::string_view body = *text;
  const std::string_view first = next_field(body, '\n');
  if (first != header(body)) return {};
  TuningTable table;
  while (!body.empty())
    if (!read_line(next_field(body, '\n'), table)) return {};
  return table;
}

std::string write_tuning_file(const std::string& path, const TuningTable& table) {
  std::string body;
  for (const auto& [key, tuned] : table)
    body += cat(key, "\t", plan_fields(tuned.plan), "\t", tuned.us, " ", tuned.native_us, "\n");
  const std::string text = cat(header(body), "\n", body);
  if (text.size() > kMaxFileBytes) return cat(path, " would be larger than it is read");
  return folder_of(path).write(fs::path(path).filename().string(), text);
}

std::string tuning_path() {
  const Config& config = Config::get();
  if (config.cache_disable || config.cache_dir.empty()) return {};
  return (fs::path(config.cache_dir) / kFileName).string();
}

std::optional<TunedPlan> find_tuned(const MatmulDesc& desc, const Machine& machine) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  load_once(s);
  if (s.table.empty()) return std::nullopt;
  const auto found = s.table.find(tuning_key(desc, machine));
  return found == s.table.end() ? std::nullopt : std::optional(found->second);
}

void store_tuned(const MatmulDesc& desc, const Machine& machine, const TunedPlan& tuned) {
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    load_once(s);
    s.table.insert_or_assign(tuning_key(desc, machine), tuned);
    if (!s.path.empty()) {
      TuningTable all = read_tuning_file(s.path);
      for (const auto& [key, mine] : s.table) all.insert_or_assign(key, mine);
      if (const std::string why = write_tuning_file(s.path, all); !why.empty())
        log_message(LogLevel::kWarning,
                    cat("matmul: measured choices end with the process: ", why));
    }
  }
  forget_plans();
}

std::size_t clear_tuned(bool file) {
  State& s = state();
  std::size_t count = 0;
  {
    const std::lock_guard lock(s.mutex);
    load_once(s);
    count = s.table.size();
    s.table.clear();
    if (file && !s.path.empty()) folder_of(s.path).remove(std::string(kFileName));
  }
  forget_plans();
  return count;
}

}  // namespace gpk::ops
