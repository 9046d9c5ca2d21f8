// Choices of plans that were measured on this machine, in memory and in a file beside the kernel
// cache.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "ops/matmul/plan.h"

namespace gpk::ops {

struct TunedPlan {
  MatmulPlan plan;
  double us = 0.0;         // measured
  double native_us = 0.0;  // the best of our own kernels; 0: none was measured
};

// What a measurement is good for: the desc, on GPUs of that kind.
std::string tuning_key(const MatmulDesc& desc, const Machine& machine);

using TuningTable = std::map<std::string, TunedPlan>;

// The file: one line of schema, package version and digest of the rest, then one line per entry.
// Anything else (another schema or version, a wrong digest, a line that cannot be read, a file that
// is too large or not to be trusted: core/private_folder.h) is an empty table. Never throws.
TuningTable read_tuning_file(const std::string& path);
// The reason for failure; empty: written.
std::string write_tuning_file(const std::string& path, const TuningTable& table);

// The process's choices, read from the file at first use (PYGPUKIT_CACHE_DISABLE: none).
std::optional<TunedPlan> find_tuned(const MatmulDesc& desc, const Machine& machine);
// Remembers a choice, here and in the file (where others may have added theirs meanwhile), and
// forgets plans made without it.
void store_tuned(const MatmulDesc& desc, const Machine& machine, const TunedPlan& tuned);
// Forgets all of them here; with `file` also there. Returns how many there were.
std::size_t clear_tuned(bool file);
std::string tuning_path();  // empty: nothing is kept on disk

}  // namespace gpk::ops
