// Files as torch.save writes them, made by hand: a ZIP archive and a pickle.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace gpk::llm {

inline std::string le(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

struct ZipOptions {
  std::uint16_t method = 0;
  std::uint16_t flags = 0;
  bool zip64 = false;  // end records and the directory's sizes, as for large files
  std::string comment;
};

using ZipFiles = std::vector<std::pair<std::string, std::string>>;  // name, bytes

// Every entry starts at a multiple of 64 bytes, as torch aligns them.
inline std::string zip_of(const ZipFiles& files, const ZipOptions& options = {}) {
  std::string out;
  std::string directory;
  const auto fixed = [&](const std::string& bytes) {
    return le(20, 2) + le(options.flags, 2) + le(options.method, 2) + le(0, 4) + le(0, 4) +
           (options.zip64 ? le(0xFFFFFFFF, 4) + le(0xFFFFFFFF, 4)
                          : le(bytes.size(), 4) + le(bytes.size(), 4));
  };
  for (const auto& [name, bytes] : files) {
    const std::size_t at = out.size();
    const std::size_t pad = 63 - (at + 30 + name.size() + 4 + 63) % 64;
    out += "PK\x03\x04" + fixed(bytes) + le(name.size(), 2) + le(4 + pad, 2) + name;
    out += "FB" + le(pad, 2) + std::string(pad, 'Z') + bytes;
    const std::string extra =
        options.zip64 ? le(1, 2) + le(24, 2) + le(bytes.size(), 8) + le(bytes.size(), 8) + le(at, 8)
                      : "";
    directory += "PK\x01\x02" + le(20, 2) + fixed(bytes) + le(name.size(), 2) +
                 le(extra.size(), 2) + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) +
                 (options.zip64 ? le(0xFFFFFFFF, 4) : le(at, 4)) + name + extra;
  }
  const std::size_t start = out.size();
  out += directory;
  const std::size_t end64 = out.size();
  if (options.zip64) {
    out += "PK\x06\x06" + le(44, 8) + le(45, 2) + le(45, 2) + le(0, 4) + le(0, 4) +
           le(files.size(), 8) + le(files.size(), 8) + le(directory.size(), 8) + le(start, 8);
    out += "PK\x06\x07" + le(0, 4) + le(end64, 8) + le(1, 4);
  }
  out += "PK\x05\x06" + le(0, 2) + le(0, 2) + le(files.size(), 2) + le(files.size(), 2);
  out += options.zip64 ? le(0xFFFFFFFF, 4) + le(0xFFFFFFFF, 4)
                       : le(directory.size(), 4) + le(start, 4);
  return out + le(options.comment.size(), 2) + options.comment;
}

// --- pickles, protocol 2 ---
inline std::string text_op(const std::string& text) { return "X" + le(text.size(), 4) + text; }
inline std::string int_op(std::int64_t value) {
  return value >= 0 && value < 256 ? "K" + le(static_cast<std::uint64_t>(value), 1)
                                   : "\x8a\x08" + le(static_cast<std::uint64_t>(value), 8);
}
inline std::string tuple_op(const std::vector<std::int64_t>& values) {
  std::string ops = "(";
  for (const std::int64_t value : values) ops += int_op(value);
  return ops + "t";
}
inline std::string global_op(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string storage_op(const std::string& type, const std::string& key, std::int64_t count) {
  return "(" + text_op("storage") + global_op("torch", type) + text_op(key) + text_op("cpu") +
         int_op(count) + "tQ";
}

struct TorchView {
  std::string type, key;
  std::int64_t count = 0, offset = 0;
  std::vector<std::int64_t> shape, strides;
};
inline std::string tensor_op(const TorchView& view) {
  return global_op("torch._utils", "_rebuild_tensor_v2") + "(" +
         storage_op(view.type, view.key, view.count) + int_op(view.offset) + tuple_op(view.shape) +
         tuple_op(view.strides) + "\x89" + global_op("collections", "OrderedDict") + ")RtR";
}
inline std::string pickle_of(const std::string& ops) { return "\x80\x02" + ops + "."; }
inline std::string dict_op(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string ops = "}(";
  for (const auto& [key, value] : items) ops += text_op(key) + value;
  return ops + "u";
}

// The archive of a pickle and its storages.
inline std::string torch_file_of(const std::string& pickle, const ZipFiles& storages,
                                 const ZipOptions& options = {}) {
  ZipFiles files = {{"archive/data.pkl", pickle}, {"archive/byteorder", "little"}};
  for (const auto& [key, bytes] : storages) files.emplace_back("archive/data/" + key, bytes);
  files.emplace_back("archive/version", "3\n");
  return zip_of(files, options);
}

}  // namespace gpk::llm
