#include "jit/bundle.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "jit/bytes.h"
#include "jit/compress.h"
#include "jit/digest.h"
#include "jit/ptx_names.h"

// Format: magic, schema, SHA-256 of the rest, NVRTC major and minor, compressed index, then one
// compressed group of PTX, its names coded, per (file, target). A group is decompressed on first
// use of one of its kernels, so a process pays only for the files it uses.
namespace gpk::jit {
namespace {

constexpr std::string_view kMagic = "GPKPTX\r\n";
constexpr std::uint32_t kSchema = 4;

// Where an entry's PTX is: a range of the raw bytes of a group. Equal PTX is stored once.
struct Row {
  BundleEntry entry;  // without ptx
  std::uint64_t group = 0;
  std::uint64_t begin = 0;
  std::uint64_t size = 0;
};

auto order_of(const BundleEntry& e) { return std::tie(e.file, e.sm, e.exact, e.expression); }

void write_row(ByteWriter& out, const Row& row) {
  out.text(row.entry.file);
  out.text(row.entry.expression);
  out.text(row.entry.symbol);
  out.u32(static_cast<std::uint32_t>(row.entry.sm));
  out.u8(row.entry.exact ? 1 : 0);
  out.u64(row.group);
  out.u64(row.begin);
  out.u64(row.size);
}

Row read_row(ByteReader& in) {
  Row row;
  row.entry.file = in.text();
  row.entry.expression = in.text();
  row.entry.symbol = in.text();
  row.entry.sm = static_cast<int>(in.u32());
  row.entry.exact = in.u8() != 0;
  row.group = in.u64();
  row.begin = in.u64();
  row.size = in.u64();
  return row;
}

class Bundle {
 public:
  explicit Bundle(std::string_view packed) : num_packed_bytes_(packed.size()) {
    if (packed.empty()) return;
    ByteReader in(packed);
    if (in.raw(kMagic.size()) != kMagic) throw Error("jit: the bundled PTX has another format");
    if (const std::uint32_t schema = in.u32(); schema != kSchema) {
      throw Error(cat("jit: the bundled PTX has schema ", schema, ", expected ", kSchema));
    }
    digest_ = in.text();  // not verified: it serves as an id, and the bytes are part of the binary
    nvrtc_major_ = static_cast<int>(in.u32());
    nvrtc_minor_ = static_cast<int>(in.u32());
    const std::string index = decompress(in.text());
    const std::uint64_t num_groups = in.u64();
    for (std::uint64_t i = 0; i < num_groups; ++i) packed_groups_.push_back(in.text());
    if (!in.rest().empty()) throw Error("jit: the bundled PTX has trailing bytes");
    groups_.resize(packed_groups_.size());
    ByteReader rows(index);
    while (!rows.rest().empty()) add_row(read_row(rows));
  }

  // The best row; nullptr: none.
  const Row* find(std::string_view file, std::string_view expression, int sm) const {
    const auto it = by_name_.find(std::pair<std::string, std::string>(file, expression));
    if (it == by_name_.end()) return nullptr;
    const Row* best = nullptr;
    for (const Row* row : it->second) {
      const BundleEntry& e = row->entry;
      if (e.sm > sm || (e.exact && e.sm != sm)) continue;
      const auto rank = [](const Row* r) { return std::pair(r->entry.sm, r->entry.exact); };
      if (best == nullptr || rank(row) > rank(best)) best = row;
    }
    return best;
  }

  BundleEntry with_ptx(const Row& row) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<const std::string>& group = groups_[row.group];
    if (!group) {
      group = std::make_unique<const std::string>(decompress(packed_groups_[row.group]));
    }
    if (row.begin > group->size() || row.size > group->size() - row.begin) {
      throw Error("jit: the bundled PTX points outside its group");
    }
    BundleEntry out = row.entry;
    out.ptx = restore_names(std::string_view(*group).substr(row.begin, row.size));
    return out;
  }

  std::vector<BundleEntry> all() {
    std::vector<BundleEntry> out;
    for (const auto& row : rows_) out.push_back(with_ptx(*row));
    return out;
  }

  std::vector<BundleEntry> index() const {
    std::vector<BundleEntry> out;
    for (const auto& row : rows_) out.push_back(row->entry);
    return out;
  }

  BundleInfo info() const {
    return {rows_.size(), num_packed_bytes_, nvrtc_major_, nvrtc_minor_, digest_};
  }

 private:
  void add_row(Row row) {
    if (row.group >= packed_groups_.size()) throw Error("jit: the bundled PTX is missing a group");
    rows_.push_back(std::make_unique<Row>(std::move(row)));
    const BundleEntry& e = rows_.back()->entry;
    by_name_[{e.file, e.expression}].push_back(rows_.back().get());
  }

  std::size_t num_packed_bytes_;
  std::string digest_;
  int nvrtc_major_ = 0;
  int nvrtc_minor_ = 0;
  std::vector<std::string_view> packed_groups_;
  std::vector<std::unique_ptr<Row>> rows_;
  std::map<std::pair<std::string, std::string>, std::vector<const Row*>> by_name_;
  std::mutex mutex_;  // guards groups_
  std::vector<std::unique_ptr<const std::string>> groups_;
};

struct State {
  std::mutex mutex;
  std::string_view packed;
  std::shared_ptr<Bundle> bundle;
};

State& state() {
  static State* instance = new State;
  return *instance;
}

std::shared_ptr<Bundle> bundle() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (!s.bundle) s.bundle = std::make_shared<Bundle>(s.packed);
  return s.bundle;
}

}  // namespace

std::optional<BundleEntry> find_in_bundle(std::string_view file, std::string_view expression,
                                          int sm) {
  const std::shared_ptr<Bundle> all = bundle();
  const Row* row = all->find(file, expression, sm);
  if (row == nullptr) return std::nullopt;
  return all->with_ptx(*row);
}

bool in_bundle(std::string_view file, std::string_view expression, int sm) {
  return bundle()->find(file, expression, sm) != nullptr;
}

std::vector<BundleEntry> bundle_index() { return bundle()->index(); }

BundleInfo bundle_info() { return bundle()->info(); }

std::string pack_bundle(const std::vector<BundleEntry>& entries, int nvrtc_major, int nvrtc_minor) {
  std::vector<const BundleEntry*> sorted;
  for (const BundleEntry& entry : entries) sorted.push_back(&entry);
  std::stable_sort(sorted.begin(), sorted.end(), [](const BundleEntry* a, const BundleEntry* b) {
    return order_of(*a) < order_of(*b);
  });
  ByteWriter index;
  std::vector<std::string> groups;
  std::map<std::string, std::uint64_t> begins;  // of the coded PTX in the last group
  const BundleEntry* previous = nullptr;
  for (const BundleEntry* entry : sorted) {
    if (previous == nullptr || previous->file != entry->file || previous->sm != entry->sm ||
        previous->exact != entry->exact) {
      groups.emplace_back();
      begins.clear();
    }
    previous = entry;
    const auto [it, fresh] = begins.emplace(code_names(entry->ptx), groups.back().size());
    if (fresh) groups.back() += it->first;
    Row row{*entry, groups.size() - 1, it->second, it->first.size()};
    write_row(index, row);
  }
  ByteWriter rest;
  rest.u32(static_cast<std::uint32_t>(nvrtc_major));
  rest.u32(static_cast<std::uint32_t>(nvrtc_minor));
  rest.text(compress(index.bytes()));
  rest.u64(groups.size());
  for (const std::string& group : groups) rest.text(compress(group));
  ByteWriter out;
  out.raw(kMagic);
  out.u32(kSchema);
  out.text(sha256_hex(rest.bytes()));
  out.raw(rest.bytes());
  return out.take();
}

std::vector<BundleEntry> unpack_bundle(std::string_view packed) { return Bundle(packed).all(); }

void set_bundle(std::string_view packed) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.packed = packed;
  s.bundle.reset();
}

}  // namespace gpk::jit
