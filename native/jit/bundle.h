// PTX of the built-in kernels, compiled by NVRTC at build time and embedded in compressed form, so
// that a machine with only a driver runs every built-in op. May be empty (no NVRTC at build time):
// then built-in kernels need NVRTC at run time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpk::jit {

struct BundleEntry {
  std::string file;        // "elementwise/map.cuh"
  std::string expression;  // "gpk::map_any<gpk::Add, float, 2>"
  std::string symbol;      // mangled name in the PTX
  int sm = 80;             // target; runs on this architecture and newer, or exactly it when
  bool exact = false;      // the kernel uses architecture-specific instructions ("a" targets)
  std::string ptx;
};

// The best entry for a GPU of `sm`: exact match first, else the newest target not above it.
std::optional<BundleEntry> find_in_bundle(std::string_view file, std::string_view expression,
                                          int sm);

// Whether find_in_bundle would find one. Reads the index only.
bool in_bundle(std::string_view file, std::string_view expression, int sm);

// Every entry, without its PTX.
std::vector<BundleEntry> bundle_index();

struct BundleInfo {
  std::size_t num_entries = 0;
  std::size_t compressed_bytes = 0;
  int nvrtc_major = 0;  // the NVRTC that compiled it
  int nvrtc_minor = 0;
  std::string digest;  // of the packed contents, in hex; empty: no bundle
};
BundleInfo bundle_info();

// Serialises and compresses; written by the build's bundle tool, read by find_in_bundle. Registers
// and labels come back with other numbers (ptx_names.h).
std::string pack_bundle(const std::vector<BundleEntry>& entries, int nvrtc_major, int nvrtc_minor);
std::vector<BundleEntry> unpack_bundle(std::string_view packed);

// The packed bytes in this binary, set once at start-up by its owner (bindings, C++ program); empty
// by default. They must live as long as the process.
void set_bundle(std::string_view packed);

}  // namespace gpk::jit
