// One cache entry as bytes: magic, schema, key, image, SHA-256 over all before it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "jit/compiler.h"

namespace gpk::jit {

// Also part of the cache key: a change gives new entries, old ones age out.
inline constexpr std::uint32_t kCacheSchema = 1;

std::string write_entry(std::string_view key, const CompiledImage& image);

// nullopt for anything that is not, bit for bit, the output of write_entry(key, ...) of this
// schema.
std::optional<CompiledImage> read_entry(std::string_view key, std::string_view bytes);

}  // namespace gpk::jit
