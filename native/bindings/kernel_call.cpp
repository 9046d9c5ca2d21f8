#include "bindings/kernel_call.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/convert.h"
#include "core/context.h"
#include "core/graph.h"

namespace gpk::bind {
namespace {

using jit::ParamKind;

std::string argument_name(const ArgSpec& spec, std::size_t index) {
  if (spec.name == nullptr) return cat("argument ", index);
  return cat('\'', PyUnicode_AsUTF8(spec.name), '\'');
}

std::string given(PyObject* value) {
  if (is_array(value)) return cat("a GPUArray of dtype ", name(array_of(value).dtype()));
  return cat(safe_repr(value), " (", Py_TYPE(value)->tp_name, ")");
}

[[noreturn]] void mismatch(const KernelState& state, std::size_t index, PyObject* value,
                           const std::string& expected,
                           InvalidArgument::Kind kind = InvalidArgument::Kind::kType) {
  const ArgSpec& spec = state.args[index];
  throw InvalidArgument(kind, cat(state.function, ": argument ", argument_name(spec, index), " (",
                                  spec.type, ") got ", given(value), ", expected ", expected));
}

// A range-checked integer.
template <class Wide, Wide (*Convert)(PyObject*)>
void store_integer(const KernelState& state, std::size_t index, PyObject* value, Wide low,
                   Wide high, std::byte* out) {
  py::object converted;
  if (!PyLong_Check(value)) {
    if (!PyIndex_Check(value)) mismatch(state, index, value, "an integer");
    converted = py::reinterpret_steal<py::object>(PyNumber_Index(value));
    if (!converted) throw py::error_already_set();
    value = converted.ptr();
  }
  const Wide number = Convert(value);
  const bool failed = number == static_cast<Wide>(-1) && PyErr_Occurred() != nullptr;
  if (failed || number < low || number > high) {
    if (failed) clear_if(PyExc_OverflowError);
    mismatch(state, index, value, cat("an integer from ", low, " to ", high),
             InvalidArgument::Kind::kValue);
  }
  std::memcpy(out, &number, state.args[index].bytes);  // little endian: the low bytes
}

long long as_signed(PyObject* value) { return PyLong_AsLongLong(value); }
unsigned long long as_unsigned(PyObject* value) { return PyLong_AsUnsignedLongLong(value); }

void store_float(const KernelState& state, std::size_t index, PyObject* value, std::byte* out) {
  const ArgSpec& spec = state.args[index];
  if (is_array(value))
    mismatch(state, index, value, "a number (arrays are not read back silently)");
  const double number =
      PyFloat_CheckExact(value) ? PyFloat_AS_DOUBLE(value) : PyFloat_AsDouble(value);
  if (number == -1.0 && PyErr_Occurred() != nullptr) {
    clear_if(PyExc_TypeError, PyExc_OverflowError);
    mismatch(state, index, value, "a number");
  }
  const DType dtype = spec.dtype.value_or(spec.bytes == 8 ? DType::kFloat64 : DType::kFloat32);
  if (dtype == DType::kFloat32) [[likely]] {
    const auto single = static_cast<float>(number);
    std::memcpy(out, &single, sizeof single);
    return;
  }
  const ScalarBytes bytes = to_bytes(Scalar(number), dtype, state.function.c_str());
  std::memcpy(out, bytes.bytes, spec.bytes);
}

// A struct or anything else by its bytes: bytes-like objects, NumPy scalars and arrays.
void store_opaque(const KernelState& state, std::size_t index, PyObject* value, std::byte* out) {
  const ArgSpec& spec = state.args[index];
  Py_buffer view;
  if (PyObject_GetBuffer(value, &view, PyBUF_SIMPLE) != 0) {
    clear_if(PyExc_TypeError, PyExc_BufferError);
    mismatch(state, index, value, cat(spec.bytes, " bytes (bytes, or a NumPy scalar or array)"));
  }
  const auto size = static_cast<std::size_t>(view.len);
  const bool any_size = spec.bytes == 0;  // on the CPU only, where it is not passed on
  if (size == spec.bytes) std::memcpy(out, view.buf, size);
  PyBuffer_Release(&view);
  if (size != spec.bytes && !any_size)
    mismatch(state, index, value, cat(spec.bytes, " bytes, not ", size),
             InvalidArgument::Kind::kValue);
}

std::mutex& states_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::map<const Kernel*, std::weak_ptr<KernelState>>& states() {
  static auto* table = new std::map<const Kernel*, std::weak_ptr<KernelState>>;
  return *table;
}

// The source is parsed without preprocessing. Where that may matter, the compiled kernel is also
// queried for a parameter beyond the last.
bool may_have_more_params(const KernelState& state) {
  for (const ArgSpec& spec : state.args)
    if (spec.bytes == 0 || spec.type.find('#') != std::string::npos) return true;
  return false;
}

void take_compiled_sizes(KernelState& state) {
  const std::size_t count = state.args.size();
  const std::size_t asked = count + (may_have_more_params(state) ? 1 : 0);
  const auto compiled = [&]() -> std::optional<std::vector<KernelParamInfo>> {
    const WithoutGil released;
    if (state.host_kernel) return state.host_kernel->params(asked);
    return state.kernel->params(asked);
  }();
  if (!compiled) return;
  if (compiled->size() != count)
    throw InvalidArgument(cat(
        state.function, ": the compiled kernel has ", compiled->size() > count ? "more than " : "",
        std::min(compiled->size(), count), " parameters, the source as read here has ", count,
        "; is its parameter list made by a macro?"));
  for (std::size_t i = 0; i < count; ++i) {
    ArgSpec& spec = state.args[i];
    const auto bytes = static_cast<std::uint32_t>((*compiled)[i].bytes);
    if (spec.bytes == bytes) continue;
    spec.kind = ParamKind::kOpaque;  // a typedef or a struct: only its size is known
    spec.dtype.reset();
    spec.bytes = bytes;
  }
}

void lay_out(KernelState& state) {
  const bool is_loaded = state.kernel != nullptr || state.host_kernel != nullptr;
  if (is_loaded) take_compiled_sizes(state);
  std::size_t offset = 0;
  for (std::size_t i = 0; i < state.args.size(); ++i) {
    ArgSpec& spec = state.args[i];
    if (spec.bytes == 0 && is_loaded)
      throw InvalidArgument(cat(state.function, ": the size of parameter ", argument_name(spec, i),
                                " (", spec.type, ") is unknown; drivers from 12.4 on can tell it"));
    spec.offset = static_cast<std::uint32_t>(offset);
    offset += (std::size_t{spec.bytes} + 15u) / 16u * 16u;
  }
  state.packed_bytes = offset;
}

}  // namespace

KernelState::~KernelState() {
  if (!python_runs()) {
    reference.release();  // the interpreter is gone, and the object with it
    return;
  }
  const WithGil gil;
  reference = py::object();
}

jit::Signature check_kernel(const std::string& source, const std::string& function,
                            std::int64_t block_size, py::handle reference) {
  auto signature = jit::parse_signature(source, function);
  if (!signature) {
    const std::string kernels = join(jit::list_kernels(source), ", ");
    throw InvalidArgument(cat("jit: Function '", function, "' not found in the source; it has ",
                              kernels.empty() ? "no __global__ function" : kernels));
  }
  if (block_size < 1 || block_size > 1024)
    throw InvalidArgument(cat("jit: block_size is ", block_size, ", expected 1 to 1024"));
  if (!reference.is_none() && PyCallable_Check(reference.ptr()) == 0)
    throw InvalidArgument(InvalidArgument::Kind::kType,
                          cat("jit: reference is ", safe_repr(reference), ", expected a function"));
  return std::move(*signature);
}

std::shared_ptr<KernelState> make_kernel_state(std::shared_ptr<jit::Program> program,
                                               const jit::Signature& signature,
                                               const std::string& function, int block_size,
                                               py::object reference) {
  auto state = std::make_shared<KernelState>();
  state->device = program->device();
  state->function = function;
  state->block_size = block_size;
  state->max_blocks = device_traits(state->device).max_grid[0];
  state->reference = std::move(reference);
  for (const jit::Param& param : signature.params) {
    ArgSpec spec;
    spec.kind = param.kind;
    spec.bytes = param.bytes;
    spec.dtype = param.dtype;
    spec.type = param.type;
    // Interned strings compare by address on the launch path; they are few and live as long as the
    // process.
    if (!param.name.empty()) spec.name = PyUnicode_InternFromString(param.name.c_str());
    state->args.push_back(std::move(spec));
  }
  if (state->device.is_cuda()) {
    const WithoutGil released;
    state->kernel = program->kernel(function);
  } else if (state->reference.is_none()) {
    const WithoutGil released;
    try {
      state->host_kernel = program->host_kernel(function);
    } catch (const Error&) {  // raised by a call: programs may build kernels that they never use
      state->host_problem = std::current_exception();
    }
  }
  state->program = std::move(program);
  lay_out(*state);
  if (state->kernel) {
    const std::lock_guard lock(states_mutex());
    std::erase_if(states(), [](const auto& item) { return item.second.expired(); });
    states()[state->kernel.get()] = state;
  }
  return state;
}

std::shared_ptr<KernelState> state_of(const Kernel* kernel) {
  const std::lock_guard lock(states_mutex());
  const auto found = states().find(kernel);
  return found == states().end() ? nullptr : found->second.lock();
}

PackedArgs::PackedArgs(const KernelState& state)
    : state_(state), params_(inline_params_), arrays_(inline_arrays_) {
  std::byte* bytes = inline_bytes_;
  const std::size_t count = state.args.size();
  if (state.packed_bytes > kInlineBytes) {
    heap_bytes_ = std::make_unique<std::byte[]>(state.packed_bytes);
    bytes = heap_bytes_.get();
  }
  if (count > kInlineArgs) {
    heap_params_ = std::make_unique<void*[]>(count);
    heap_arrays_ = std::make_unique<const Array*[]>(count);
    params_ = heap_params_.get();
    arrays_ = heap_arrays_.get();
  }
  for (std::size_t i = 0; i < count; ++i) params_[i] = bytes + state.args[i].offset;
}

void PackedArgs::convert_pointer(const ArgSpec& spec, std::size_t index, PyObject* value,
                                 std::byte* out) {
  cu::DevicePtr address = 0;
  if (is_array(value)) [[likely]] {
    Array& array = array_of(value);
    if (spec.dtype && *spec.dtype != array.dtype())
      mismatch(state_, index, value, cat("a GPUArray of dtype ", name(*spec.dtype)));
    if (!(array.device() == state_.device))
      mismatch(
          state_, index, value,
          cat("an array on ", to_string(state_.device), ", not on ", to_string(array.device())));
    address = array.kernel_ptr();
    arrays_[num_arrays_++] = &array;
    if (array.size() > largest_) largest_ = array.size();
  } else if (PyLong_Check(value)) {
    address = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred() != nullptr) {
      clear_if(PyExc_OverflowError);
      mismatch(state_, index, value, "a GPUArray, an address or None");
    }
  } else if (value != Py_None) {
    mismatch(state_, index, value, "a GPUArray, an address or None");
  }
  std::memcpy(out, &address, sizeof address);
}

void PackedArgs::convert(PyObject* const* values) {
  for (std::size_t i = 0; i < state_.args.size(); ++i) {
    const ArgSpec& spec = state_.args[i];
    auto* out = static_cast<std::byte*>(params_[i]);
    const unsigned bits = spec.bytes * 8;
    switch (spec.kind) {
      case ParamKind::kPointer: convert_pointer(spec, i, values[i], out); break;
      case ParamKind::kFloat: store_float(state_, i, values[i], out); break;
      case ParamKind::kSigned:
        store_integer<long long, as_signed>(state_, i, values[i], -1LL << (bits - 1),
                                            ~(-1LL << (bits - 1)), out);
        break;
      case ParamKind::kUnsigned:
        store_integer<unsigned long long, as_unsigned>(state_, i, values[i], 0ULL,
                                                       ~0ULL >> (64 - bits), out);
        break;
      case ParamKind::kBool:
        store_integer<long long, as_signed>(state_, i, values[i], 0, 1, out);
        break;
      case ParamKind::kOpaque: store_opaque(state_, i, values[i], out); break;
    }
  }
}

}  // namespace gpk::bind
