// Matches a kernel call's arguments to parameters and launch options.
#include "base/ceil_div.h"
#include "base/error.h"
#include "base/round_up.h"
#include "base/text.h"
#include "bindings/convert.h"
#include "bindings/kernel_call.h"
#include "core/context.h"

namespace gpk::bind {
namespace {

[[noreturn]] void bad_call(const KernelState& state, const std::string& what) {
  std::vector<std::string> params;
  for (const ArgSpec& spec : state.args)
    params.push_back(spec.name == nullptr ? spec.type
                                          : cat(spec.type, ' ', PyUnicode_AsUTF8(spec.name)));
  throw InvalidArgument(
      InvalidArgument::Kind::kType,
      cat(state.function, ": ", what, "; the kernel takes (", join(params, ", "), ")"));
}

// An int or up to three ints, missing ones 1.
void read_dims(const KernelState& state, const char* option, PyObject* value, unsigned out[3]) {
  const Dims dims = shape_from_python(value, state.function.c_str(), option);
  if (dims.empty() || dims.size() > 3)
    throw InvalidArgument(cat(state.function, ": ", option, " is ", to_string(dims),
                              ", expected one to three sizes"));
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t size = axis < dims.size() ? dims[axis] : 1;
    if (size < 1 || size > 0xffffffffLL)
      throw InvalidArgument(cat(
          state.function, ": ", option, " is ", to_string(dims),
          size < 1 ? ", each size must be at least 1" : ", each size must be at most 2**32 - 1"));
    out[axis] = static_cast<unsigned>(size);
  }
}

std::size_t read_shared(const KernelState& state, PyObject* value) {
  const std::size_t bytes =
      PyLong_Check(value) ? PyLong_AsSize_t(value) : static_cast<std::size_t>(-1);
  if (bytes == static_cast<std::size_t>(-1)) {
    if (PyErr_Occurred() != nullptr) clear_if(PyExc_OverflowError);
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(state.function, ": shared_mem is ", safe_repr(value), ", expected a number of bytes"));
  }
  return bytes;
}

// True when `key` is a launch option, whose value is then stored.
bool take_option(const KernelState& state, PyObject* key, PyObject* value, CallOptions& options) {
  const std::string_view name = PyUnicode_AsUTF8(key);
  if (name == "grid" || name == "grid_size") {
    if (value == Py_None) return true;
    read_dims(state, "grid", value, options.config.grid);
    options.has_grid = true;
  } else if (name == "block") {
    if (value == Py_None) return true;
    read_dims(state, "block", value, options.config.block);
    options.has_block = true;
  } else if (name == "cluster") {
    if (value != Py_None) read_dims(state, "cluster", value, options.config.cluster);
  } else if (name == "shared_mem") {
    options.config.shared_bytes = read_shared(state, value);
  } else if (name == "stream") {
    options.stream = stream_from_python(value, state.device, state.function.c_str());
  } else if (name == "cooperative") {
    options.config.cooperative = is_true(value);
  } else if (name == "programmatic") {
    options.config.programmatic = is_true(value);
  } else {
    return false;
  }
  return true;
}

// Index of the parameter called `key`; the number of parameters when there is none. Keyword names
// at a call site are interned, so the first loop nearly always matches.
std::size_t param_index(const KernelState& state, PyObject* key) {
  const std::size_t count = state.args.size();
  for (std::size_t i = 0; i < count; ++i)
    if (state.args[i].name == key) return i;
  for (std::size_t i = 0; i < count; ++i)
    if (state.args[i].name != nullptr && PyUnicode_Compare(state.args[i].name, key) == 0) return i;
  return count;
}

}  // namespace

CallOptions match_arguments(const KernelState& state, PyObject* const* args, std::size_t num_args,
                            PyObject* kwnames, PyObject** values) {
  CallOptions options;
  const std::size_t count = state.args.size();
  if (num_args > count)
    bad_call(state, cat("got ", num_args, " positional arguments, expected ", count));
  for (std::size_t i = 0; i < count; ++i) values[i] = i < num_args ? args[i] : nullptr;
  const Py_ssize_t num_keywords = kwnames == nullptr ? 0 : PyTuple_GET_SIZE(kwnames);
  for (Py_ssize_t k = 0; k < num_keywords; ++k) {
    PyObject* key = PyTuple_GET_ITEM(kwnames, k);
    PyObject* value = args[num_args + static_cast<std::size_t>(k)];
    const std::size_t index = param_index(state, key);
    if (index < count) {
      if (values[index] != nullptr)
        bad_call(state, cat("argument '", PyUnicode_AsUTF8(key), "' was given twice"));
      values[index] = value;
    } else if (!take_option(state, key, value, options)) {
      bad_call(state, cat("unknown argument '", PyUnicode_AsUTF8(key), "'"));
    }
  }
  std::vector<std::string> missing;
  for (std::size_t i = 0; i < count; ++i)
    if (values[i] == nullptr) [[unlikely]]
      missing.push_back(state.args[i].name == nullptr
                            ? cat("number ", i)
                            : cat('\'', PyUnicode_AsUTF8(state.args[i].name), '\''));
  if (!missing.empty()) bad_call(state, cat("missing arguments: ", join(missing, ", ")));
  return options;
}

bool complete_config(const KernelState& state, const PackedArgs& args, CallOptions& options) {
  LaunchConfig& config = options.config;
  if (!options.has_block) config.block[0] = static_cast<unsigned>(state.block_size);
  if (options.has_grid) return true;
  if (!args.has_array())
    throw InvalidArgument(
        InvalidArgument::Kind::kType,
        cat(state.function, ": grid= is required: no array argument determines a size"));
  if (args.largest_elems() == 0) return false;
  const std::int64_t threads = std::int64_t{config.block[0]} * config.block[1] * config.block[2];
  std::int64_t blocks = ceil_div(args.largest_elems(), threads);
  const unsigned cluster = config.cluster[0] > 1 ? config.cluster[0] : 1;
  blocks = round_up(blocks, cluster);
  if (blocks > state.max_blocks)
    throw InvalidArgument(cat(state.function, ": ", args.largest_elems(), " elements need ", blocks,
                              " blocks, more than a 1-D grid has; pass grid="));
  config.grid[0] = static_cast<unsigned>(blocks);
  return true;
}

}  // namespace gpk::bind
