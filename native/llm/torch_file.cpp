#include "llm/torch_file.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "llm/pickle.h"
#include "llm/zip_directory.h"

namespace gpk::llm {
namespace {

constexpr const char* kOp = "torch file";
constexpr std::size_t kMaxTensors = 1'000'000;
constexpr int kMaxDepth = 32;

// Globals of storages and dtypes, and SafeTensors' name of the type.
struct TorchType {
  std::string_view global;
  const char* stored;
};
constexpr TorchType kStorageTypes[] = {
    {"torch FloatStorage", "F32"},        {"torch DoubleStorage", "F64"},
    {"torch HalfStorage", "F16"},         {"torch BFloat16Storage", "BF16"},
    {"torch LongStorage", "I64"},         {"torch IntStorage", "I32"},
    {"torch ShortStorage", "I16"},        {"torch CharStorage", "I8"},
    {"torch ByteStorage", "U8"},          {"torch BoolStorage", "BOOL"},
    {"torch ComplexFloatStorage", "C64"},
};
// _rebuild_tensor_v3 has the dtype beside a storage of bytes.
constexpr TorchType kDtypes[] = {
    {"torch float8_e4m3fn", "F8_E4M3"},
    {"torch float8_e5m2", "F8_E5M2"},
    {"torch uint16", "U16"},
    {"torch uint32", "U32"},
    {"torch uint64", "U64"},
};
constexpr std::string_view kUntyped = "torch.storage UntypedStorage";
constexpr std::string_view kOrderedDict = "collections OrderedDict";
constexpr std::string_view kSize = "torch Size";
constexpr std::string_view kRebuild = "torch._utils _rebuild_tensor_v2";
constexpr std::string_view kRebuildTyped = "torch._utils _rebuild_tensor_v3";
constexpr std::string_view kParameter = "torch._utils _rebuild_parameter";

template <std::size_t n>
const char* stored_type_in(const TorchType (&types)[n], std::string_view global) {
  for (const TorchType& type : types)
    if (type.global == global) return type.stored;
  return nullptr;
}

bool is_known_global(std::string_view name) {
  constexpr std::string_view kOthers[] = {kUntyped, kOrderedDict,  kSize,
                                          kRebuild, kRebuildTyped, kParameter};
  return std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers) ||
         stored_type_in(kStorageTypes, name) != nullptr || stored_type_in(kDtypes, name) != nullptr;
}

using Entries = std::unordered_map<std::string, const ZipEntry*>;  // by the name after the folder

// The tensors that a pickle describes, checked against the archive's entries.
class TensorReader {
 public:
  TensorReader(const Pickle& pickle, const Entries& entries, const std::string& path)
      : pickle_(pickle), entries_(entries), path_(path) {}

  void read() { visit(pickle_.root, "", 0); }

  std::vector<TensorInfo> storages;
  std::vector<TorchTensor> tensors;

 private:
  using Items = std::vector<std::uint32_t>;

  [[noreturn]] void fail(const std::string& problem) const {
    throw InvalidArgument(cat(kOp, ": ", path_, ": ", problem));
  }
  [[noreturn]] void fail(const std::string& name, const std::string& problem) const {
    fail(cat("tensor ", quoted_name(name), " ", problem));
  }

  const PickleValue& at(std::uint32_t index) const { return pickle_[index]; }
  // Of a call.
  std::string_view function(const PickleValue& call) const { return at(call.items[0]).text; }
  const Items& arguments(const PickleValue& call) const { return at(call.items[1]).items; }

  void visit(std::uint32_t index, const std::string& name, int depth) {
    if (depth > kMaxDepth) fail(cat("containers are nested more than ", kMaxDepth, " deep"));
    if (++num_visited_ > kMaxPickleValues) fail("the same containers are used too often");
    const PickleValue& value = at(index);
    switch (value.kind) {
      case PickleKind::kDict: visit_items(value.items, 0, name, depth); break;
      case PickleKind::kTuple:
      case PickleKind::kList: visit_list(value.items, name, depth); break;
      case PickleKind::kCall: visit_call(index, name, depth); break;
      default: break;  // numbers and text beside the tensors
    }
  }

  void visit_items(const Items& items, std::size_t first, const std::string& name, int depth) {
    for (std::size_t i = first; i + 1 < items.size(); i += 2) {
      const PickleValue& key = at(items[i]);
      if (key.kind == PickleKind::kText)
        visit(items[i + 1], join_name(name, key.text), depth + 1);
      else if (key.kind == PickleKind::kInt)
        visit(items[i + 1], join_name(name, cat(key.number)), depth + 1);
      else
        fail(cat("a dict ", name.empty() ? "" : cat("at ", quoted_name(name), " "),
                 "has a key that is neither text nor an integer"));
    }
  }

  void visit_list(const Items& items, const std::string& name, int depth) {
    for (std::size_t i = 0; i < items.size(); ++i)
      visit(items[i], join_name(name, cat(i)), depth + 1);
  }

  void visit_call(std::uint32_t index, const std::string& name, int depth) {
    const PickleValue& call = at(index);
    const std::string_view which = function(call);
    if (which == kOrderedDict) {
      for (const std::uint32_t argument : arguments(call)) visit_pairs(argument, name, depth);
      visit_items(call.items, 2, name, depth);
    } else if (call.items.size() > 2) {
      fail(cat("items are added to a ", which.substr(which.find(' ') + 1)));
    } else if (which == kParameter) {
      if (arguments(call).empty()) fail(name, "is a parameter of nothing");
      visit(arguments(call)[0], name, depth + 1);
    } else if (which == kRebuild || which == kRebuildTyped) {
      add_tensor(call, name, which == kRebuildTyped);
    } else if (which != kSize) {
      fail(cat("there is a call of ", which.substr(which.find(' ') + 1)));
    }
  }

  // OrderedDict([(key, value), ...]).
  void visit_pairs(std::uint32_t index, const std::string& name, int depth) {
    for (const std::uint32_t pair : at(index).items) {
      if (at(pair).items.size() != 2) fail("an OrderedDict is not made of pairs");
      visit_items(at(pair).items, 0, name, depth);
    }
  }

  static std::string join_name(const std::string& prefix, std::string_view key) {
    return prefix.empty() ? std::string(key) : cat(prefix, ".", key);
  }

  // (storage, offset, shape, strides, requires_grad, hooks[, dtype]).
  void add_tensor(const PickleValue& call, const std::string& name, bool typed) {
    const Items& args = arguments(call);
    if (args.size() < (typed ? 7U : 4U)) fail(name, cat("has ", args.size(), " arguments"));
    if (tensors.size() >= kMaxTensors) fail(cat("there are more than ", kMaxTensors, " tensors"));
    if (!names_.insert(name).second) fail(name, "is there twice");
    TorchTensor tensor;
    tensor.name = name;
    const char* dtype = typed ? dtype_of(name, args[6]) : nullptr;
    tensor.storage = storage_of(name, args[0], dtype);
    tensor.offset = integer(name, args[1], "an offset");
    tensor.shape = dims(name, args[2], "a size");
    tensor.strides = dims(name, args[3], "a stride");
    check_bounds(tensor);
    tensors.push_back(std::move(tensor));
  }

  const char* dtype_of(const std::string& name, std::uint32_t index) const {
    const PickleValue& value = at(index);
    const char* stored =
        value.kind == PickleKind::kGlobal ? stored_type_in(kDtypes, value.text) : nullptr;
    if (stored == nullptr) fail(name, "has a dtype that is not known");
    return stored;
  }

  std::int64_t integer(const std::string& name, std::uint32_t index, const char* what) const {
    const PickleValue& value = at(index);
    if (value.kind != PickleKind::kInt || value.number < 0)
      fail(name, cat("has ", what, " that is not an integer from 0 to 2**63 - 1"));
    return value.number;
  }

  // A tuple of integers, or torch.Size of one.
  Dims dims(const std::string& name, std::uint32_t index, const char* what) const {
    const PickleValue* value = &at(index);
    if (value->kind == PickleKind::kCall && function(*value) == kSize &&
        arguments(*value).size() == 1)
      value = &at(arguments(*value)[0]);
    if (value->kind != PickleKind::kTuple) fail(name, cat("has ", what, " that is not a tuple"));
    if (value->items.size() > static_cast<std::size_t>(kMaxRank))
      fail(name, cat("has ", value->items.size(), " dimensions, expected at most ", kMaxRank));
    Dims result = Dims::filled(static_cast<int>(value->items.size()), 0);
    for (int i = 0; i < result.size(); ++i)
      result[i] = integer(name, value->items[static_cast<std::size_t>(i)], what);
    return result;
  }

  // ("storage", type, key, location, number of elements).
  std::size_t storage_of(const std::string& name, std::uint32_t index, const char* dtype) {
    const PickleValue& reference = at(index);
    if (reference.kind != PickleKind::kPersistent) fail(name, "has no storage");
    const Items& parts = at(reference.items[0]).items;
    if (parts.size() != 5 || at(parts[0]).text != "storage" ||
        at(parts[1]).kind != PickleKind::kGlobal || at(parts[2]).kind != PickleKind::kText)
      fail(name, "has a storage that is not described as torch does it");
    const std::string_view global = at(parts[1]).text;
    if (dtype == nullptr) dtype = stored_type_in(kStorageTypes, global);
    if (dtype == nullptr) fail(name, cat("has a storage of ", quoted_name(global)));
    const std::string key(at(parts[2]).text);
    const auto known = by_key_.find(key);
    if (known != by_key_.end()) {
      if (storages[known->second].stored_type != dtype)
        fail(name, cat("has storage ", quoted_name(key), " as ", dtype, ", which is ",
                       storages[known->second].stored_type, " elsewhere"));
      return known->second;
    }
    const std::int64_t count = integer(name, parts[4], "a storage with a size");
    add_storage(name, key, dtype, global == kUntyped, static_cast<std::uint64_t>(count));
    by_key_.emplace(key, storages.size() - 1);
    return storages.size() - 1;
  }

  // `count`: elements, of an untyped storage bytes.
  void add_storage(const std::string& name, const std::string& key, const char* dtype, bool untyped,
                   std::uint64_t count) {
    const auto entry = entries_.find(cat("data/", key));
    if (entry == entries_.end())
      fail(name,
           cat("has its data in entry ", quoted_name(cat("data/", key)), ", which is not there"));
    const StoredType& type = *find_stored_type(dtype);
    const std::uint64_t item = type.bits / 8;
    const std::uint64_t bytes = entry->second->size_bytes;
    if (untyped ? count != bytes || bytes % item != 0 : count != bytes / item || bytes % item != 0)
      fail(name, cat("has a storage of ", count, untyped ? " bytes" : " elements", ", expected ",
                     untyped ? bytes : bytes / item, " as entry ", quoted_name(cat("data/", key)),
                     " has ", bytes, " bytes"));
    TensorInfo info;
    info.name = cat("data/", key);
    info.stored_type = dtype;
    info.dtype = type.dtype;
    info.shape = {static_cast<std::int64_t>(bytes / item)};
    info.offset = entry->second->offset;
    info.size_bytes = bytes;
    storages.push_back(std::move(info));
  }

  // The last element is inside the storage; sizes and strides cannot overflow.
  void check_bounds(const TorchTensor& tensor) const {
    if (tensor.shape.size() != tensor.strides.size())
      fail(tensor.name,
           cat("has shape ", to_string(tensor.shape), " and strides ", to_string(tensor.strides)));
    const std::int64_t available = storages[tensor.storage].shape[0];
    const auto beyond = [&] {
      fail(tensor.name, cat("of shape ", to_string(tensor.shape), ", strides ",
                            to_string(tensor.strides), " and offset ", tensor.offset,
                            " goes beyond its storage of ", available, " elements"));
    };
    constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
    std::int64_t product = 1;
    for (const std::int64_t size : tensor.shape) {
      if (size != 0 && product > kMax / size) beyond();
      if (size != 0) product *= size;
    }
    if (tensor.offset > available) beyond();
    if (std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end()) return;
    std::int64_t last = tensor.offset;
    for (int i = 0; i < tensor.shape.size(); ++i) {
      const std::int64_t steps = tensor.shape[i] - 1;
      if (steps == 0) continue;
      if (tensor.strides[i] > (available - last) / steps) beyond();
      last += steps * tensor.strides[i];
    }
    if (last >= available) beyond();
  }

  const Pickle& pickle_;
  const Entries& entries_;
  const std::string& path_;
  std::size_t num_visited_ = 0;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::size_t> by_key_;
};

[[noreturn]] void throw_bad(const WeightFile& file, const std::string& problem) {
  throw InvalidArgument(cat(kOp, ": ", file.path(), ": ", problem));
}

// What a file is that is not a ZIP archive.
void check_signature(const WeightFile& file) {
  unsigned char first[4] = {};
  if (file.size_bytes() < sizeof first)
    throw_bad(file, cat("the file has ", file.size_bytes(), " bytes, expected a ZIP archive"));
  file.read(0, first, sizeof first);
  if (first[0] == 'P' && first[1] == 'K') return;
  if (first[0] == 0x80)
    throw_bad(
        file,
        "this is a plain pickle, the format of torch before 1.6, expected a ZIP archive: load "
        "it with torch and save it again, as SafeTensors at best");
  throw_bad(file, "this is no ZIP archive, which torch.save writes");
}

std::string read_entry(const WeightFile& file, const ZipEntry& entry, std::size_t max_bytes) {
  if (entry.size_bytes > max_bytes)
    throw_bad(file, cat("entry ", quoted_name(entry.name), " has ", entry.size_bytes,
                        " bytes, expected at most ", max_bytes));
  std::string bytes(static_cast<std::size_t>(entry.size_bytes), '\0');
  file.read(entry.offset, bytes.data(), bytes.size());
  return bytes;
}

// All entries are in one folder, named after the file when it was written.
Entries entries_of(const WeightFile& file, const std::vector<ZipEntry>& all) {
  Entries entries;
  std::optional<std::string> folder;
  for (const ZipEntry& entry : all) {
    const std::size_t slash = entry.name.find('/');
    if (slash == std::string::npos)
      throw_bad(file, cat("entry ", quoted_name(entry.name), " is in no folder"));
    const std::string first = entry.name.substr(0, slash);
    if (folder.value_or(first) != first)
      throw_bad(file, cat("entries are in folders ", quoted_name(*folder), " and ",
                          quoted_name(first), ", expected one"));
    folder = first;
    entries.emplace(entry.name.substr(slash + 1), &entry);
  }
  return entries;
}

void check_byte_order(const WeightFile& file, const Entries& entries) {
  const auto found = entries.find("byteorder");
  if (found == entries.end()) return;
  const std::string order = read_entry(file, *found->second, 16);
  if (order != "little")
    throw_bad(file, cat("the byte order is ", quoted_name(order), ", expected 'little'"));
}

}  // namespace

TorchFile::TorchFile(std::string path) : file_(std::move(path), kOp) {
  check_signature(file_);
  const std::vector<ZipEntry> all = read_zip_directory(file_, kOp);
  const Entries entries = entries_of(file_, all);
  check_byte_order(file_, entries);
  const auto description = entries.find("data.pkl");
  if (description == entries.end())
    throw_bad(file_, entries.contains("constants.pkl")
                         ? "this is a TorchScript archive, expected the output of torch.save"
                         : "there is no entry data.pkl");
  const std::string bytes = read_entry(file_, *description->second, kMaxPickleBytes);
  const Pickle pickle = parse_pickle(bytes, is_known_global, cat(kOp, ": ", file_.path()));
  TensorReader reader(pickle, entries, file_.path());
  reader.read();
  storages_ = std::move(reader.storages);
  tensors_ = std::move(reader.tensors);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    names_.push_back(tensors_[i].name);
    by_name_.emplace(tensors_[i].name, i);
  }
}

const TorchTensor* TorchFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::map<std::string, Array> TorchFile::load(std::span<const std::string> names, Device device,
                                             const LoadOptions& options) const {
  std::vector<bool> wanted(storages_.size(), false);
  for (const std::string& name : names) {
    const TorchTensor* tensor = find(name);
    if (tensor == nullptr)
      throw InvalidArgument(cat(kOp, ": ", file_.path(), " has no tensor ", quoted_name(name)));
    wanted[tensor->storage] = true;
  }
  std::vector<WeightSource> sources;
  for (std::size_t i = 0; i < storages_.size(); ++i)
    if (wanted[i]) sources.push_back({&file_, &storages_[i]});
  std::sort(sources.begin(), sources.end(), [](const WeightSource& a, const WeightSource& b) {
    return a.tensor->offset < b.tensor->offset;
  });
  const std::map<std::string, Array> arrays = load_weights(sources, device, options);
  std::map<std::string, Array> result;
  for (const std::string& name : names) {
    const TorchTensor& tensor = *find(name);
    const Array& storage = arrays.at(storages_[tensor.storage].name);
    result.emplace(name, Array(tensor.shape, tensor.strides, storage.dtype(), storage.buffer(),
                               storage.offset_elems() + tensor.offset));
  }
  return result;
}

}  // namespace gpk::llm
