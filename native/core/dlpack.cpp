#include "core/dlpack.h"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "core/check.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/stream.h"

namespace gpk::inline core {
namespace {

__extension__ typedef __int128 Wide;  // holds any sum of products of 64-bit numbers here

constexpr std::int64_t kLegacyStream = 1;
constexpr std::int64_t kNoOrdering = -1;

std::uint8_t type_code(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16: return dl::kBFloat;
    case DType::kFloat8E4M3FN: return dl::kFloat8E4M3FN;
    case DType::kFloat8E5M2: return dl::kFloat8E5M2;
    case DType::kFloat4E2M1FN: return dl::kFloat4E2M1FN;
    default: break;
  }
  switch (info(dtype).kind) {
    case DTypeClass::kBool: return dl::kBool;
    case DTypeClass::kSigned: return dl::kInt;
    case DTypeClass::kUnsigned: return dl::kUInt;
    case DTypeClass::kComplex: return dl::kComplex;
    case DTypeClass::kFloat: break;
  }
  return dl::kFloat;
}

std::optional<DType> dtype_of(dl::DataType type) {
  for (const DTypeInfo& row : detail::kDTypes)
    if (row.bits == type.bits && type_code(row.dtype) == type.code) return row.dtype;
  return std::nullopt;
}

// The parts of a tensor that its consumer reads through pointers, and the owner of the memory.
template <class Managed>
struct Exported {
  Managed managed;
  Array array;
  BufferPin pin;  // the consumer has the address
  Dims shape;
  Dims strides;

  explicit Exported(const Array& a)
      : managed{}, array(a), pin(a.buffer()), shape(a.shape()), strides(a.strides()) {}
};

template <class Managed>
void delete_exported(Managed* self) {
  delete static_cast<Exported<Managed>*>(self->manager_context);
}

// Two values per element where the last axis allows it: PyTorch accepts float4 only in this form.
bool as_pairs(const Array& array) {
  return array.dtype() == DType::kFloat4E2M1FN && array.ndim() > 0 &&
         array.shape()[array.ndim() - 1] % 2 == 0;
}

template <class Managed>
Managed* export_array(const Array& array) {
  const bool packed = info(array.dtype()).bits == 4;
  if (packed && (!array.is_contiguous() || array.offset_elems() % 2 != 0))
    throw ExchangeError(cat("__dlpack__: a part of a packed ", name(array.dtype()), " array"));
  auto owned = std::make_unique<Exported<Managed>>(array);
  const bool pairs = as_pairs(array);
  if (pairs) owned->shape[array.ndim() - 1] /= 2;
  if (packed) owned->strides = contiguous_strides(owned->shape);
  dl::Tensor& tensor = owned->managed.tensor;
  tensor.data = array.size() == 0 ? nullptr : array.data();
  tensor.device = dlpack_device(array.device());
  tensor.ndim = array.ndim();
  tensor.dtype = {type_code(array.dtype()), info(array.dtype()).bits,
                  static_cast<std::uint16_t>(pairs ? 2 : 1)};
  tensor.shape = owned->shape.data();
  tensor.strides = owned->strides.data();
  tensor.byte_offset = 0;
  owned->managed.manager_context = owned.get();
  owned->managed.deleter = delete_exported<Managed>;
  return &owned.release()->managed;
}

// Kept forever: releasing a wrapped stream would flush the allocator's free list for its handle.
std::shared_ptr<Stream> foreign_stream(Device device, std::int64_t handle) {
  if (handle == kLegacyStream) return Stream::default_for(device);
  const auto& current = current_stream(device);
  const auto value = static_cast<std::uintptr_t>(handle);
  if (current->handle_value() == value) return current;
  static std::mutex mutex;
  static auto* streams = new std::map<std::pair<Context*, std::uintptr_t>, std::shared_ptr<Stream>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Stream>& stream = (*streams)[{current->context(), value}];
  if (!stream) stream = Stream::wrap(device, value, nullptr);
  return stream;
}

std::string describe(dl::DataType type) {
  return cat("code ", int{type.code}, ", ", int{type.bits}, " bits, ", int{type.lanes}, " lanes");
}

}  // namespace

dl::Device dlpack_device(Device device) {
  return {device.is_cuda() ? dl::kCuda : dl::kCpu, device.is_cuda() ? device.index : 0};
}

Device device_from_dlpack(dl::Device device, const char* op) {
  switch (device.type) {
    case dl::kCpu:
    case dl::kCudaHost: return {DeviceKind::kCpu, 0};
    case dl::kCuda:
    case dl::kCudaManaged: return {DeviceKind::kCuda, device.id};
    default:
      throw ExchangeError(cat(op, ": memory of DLPack device type ", device.type,
                              ", expected the CPU (1, 3) or CUDA (2, 13)"));
  }
}

dl::ManagedTensorVersioned* to_dlpack(const Array& array, std::uint64_t flags) {
  auto* managed = export_array<dl::ManagedTensorVersioned>(array);
  managed->version = {dl::kMajorVersion, dl::kMinorVersion};
  managed->flags = flags | (array.buffer()->read_only() ? dl::kReadOnly : 0);
  return managed;
}

dl::ManagedTensor* to_dlpack_unversioned(const Array& array) {
  if (array.buffer()->read_only())
    throw ExchangeError(
        "__dlpack__: the memory is read-only, which only versioned capsules can say; the consumer "
        "must pass max_version=(1, 0) or newer");
  return export_array<dl::ManagedTensor>(array);
}

Array from_dlpack(const dl::Tensor& tensor, std::uint64_t flags, std::shared_ptr<void> owner,
                  const char* op) {
  const Device device = device_from_dlpack(tensor.device, op);
  const auto dtype = dtype_of(tensor.dtype);
  const bool packed = tensor.dtype.bits == 4;
  const bool pairs = packed && tensor.dtype.lanes == 2 && tensor.ndim > 0;
  if (!dtype || (tensor.dtype.lanes != 1 && !pairs) ||
      (packed && (flags & dl::kSubbytePadded) != 0))
    throw ExchangeError(
        cat(op, ": the tensor's dtype is not supported (", describe(tensor.dtype), ")"));
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank)
    throw ExchangeError(
        cat(op, ": ", tensor.ndim, " dimensions, at most ", kMaxRank, " are supported"));
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  Dims shape(std::span<const std::int64_t>(tensor.shape, rank));
  Dims strides = tensor.strides == nullptr
                     ? contiguous_strides(shape)
                     : Dims(std::span<const std::int64_t>(tensor.strides, rank));
  if (packed) {
    const Array layout(shape, strides, DType::kUInt8, Buffer::wrap(device, nullptr, 0, nullptr), 0);
    if (!layout.is_contiguous())
      throw ExchangeError(cat(op, ": a packed ", name(*dtype), " tensor that is not contiguous"));
    if (pairs) shape[shape.size() - 1] *= 2;
    strides = contiguous_strides(shape);
  }
  void* first =
      tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  Array array = wrap_memory(device, first, std::move(shape), std::move(strides), *dtype,
                            std::move(owner), op);
  if ((flags & dl::kReadOnly) != 0) array.buffer()->set_read_only();
  return array;
}

Array wrap_memory(Device device, void* first, Dims shape, Dims strides, DType dtype,
                  std::shared_ptr<void> owner, const char* op) {
  const std::int64_t count = num_elements(shape, op);
  if (count == 0) {
    Dims any = contiguous_strides(shape);
    return {std::move(shape), std::move(any), dtype,
            Buffer::wrap(device, nullptr, 0, std::move(owner)), 0};
  }
  Wide low = 0;
  Wide high = 0;
  for (int i = 0; i < shape.size(); ++i) {
    const Wide reach = static_cast<Wide>(shape[i] - 1) * strides[i];
    (reach < 0 ? low : high) += reach;
  }
  constexpr Wide kLimit = Wide{1} << 56;
  if (low < -kLimit || high > kLimit)
    throw ExchangeError(cat(op, ": strides ", to_string(strides), " for shape ", to_string(shape)));
  // Kernels load whole elements; on the CPU the alignment of the largest C type suffices.
  const std::size_t item = itemsize(dtype);
  const std::size_t alignment = device.is_cuda() || item < 8 ? item : 8;
  const auto address = reinterpret_cast<std::uintptr_t>(first);
  if (first == nullptr || address % alignment != 0)
    throw ExchangeError(cat(op, ": the data is at address ", address, ", not a multiple of ",
                            alignment, " bytes as ", name(dtype), " needs"));
  const auto before = static_cast<std::int64_t>(-low);
  const auto span = static_cast<std::int64_t>(high - low) + 1;
  char* start = static_cast<char*>(first) - before * info(dtype).bits / 8;
  auto buffer = Buffer::wrap(device, start, bytes_for(dtype, span), std::move(owner));
  return {std::move(shape), std::move(strides), dtype, std::move(buffer), before};
}

Device device_of_memory(const void* ptr, const char* op) {
  Context& context = Context::get(0);
  context.make_current();
  const auto ask = [&](int attribute) {
    int value = 0;
    void* into = &value;
    GPK_CU_CHECK(cuPointerGetAttributes, 1, &attribute, &into,
                 static_cast<cu::DevicePtr>(reinterpret_cast<std::uintptr_t>(ptr)));
    return value;
  };
  if (ask(cu::kPointerMemoryType) == 0)
    throw ExchangeError(cat(op, ": the data is at address ", reinterpret_cast<std::uintptr_t>(ptr),
                            ", which the driver does not know"));
  return {DeviceKind::kCuda, cuda_device_count() == 1 ? 0 : ask(cu::kPointerDeviceOrdinal)};
}

void order_for_consumer(const Array& array, std::int64_t stream, const char* op) {
  if (!array.device().is_cuda() || stream == kNoOrdering) return;
  forbid_in_capture(op, "another library's stream cannot wait for work that is only recorded");
  const auto consumer = foreign_stream(array.device(), stream);
  array.buffer()->order_before(*consumer);
  // Other streams may be destroyed before the memory is freed; the default stream never is.
  if (stream == kLegacyStream) array.buffer()->mark_use(consumer);
}

void wait_for_producer(Device device, std::int64_t stream, const char* op) {
  if (!device.is_cuda() || stream == kNoOrdering) return;
  forbid_in_capture(op, "work of another library cannot be waited for in a graph");
  current_stream(device)->wait(*foreign_stream(device, stream));
}

}  // namespace gpk::inline core
