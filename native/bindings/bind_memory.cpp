// Pinned host memory and raw copies.
#include <pybind11/numpy.h>

#include "base/error.h"
#include "base/text.h"
#include "bindings/array_object.h"
#include "bindings/bind.h"
#include "bindings/convert.h"
#include "bindings/made_resources.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/memory.h"
#include "device/transfers.h"
#include "ops/submit.h"

#include <cstring>
#include <functional>

namespace gpk::bind {
namespace {

py::object pinned_empty(py::handle shape, py::handle dtype, py::handle device) {
  const Dims dims = shape_from_python(shape, "pinned_empty");
  const DType type = dtype_from_python(dtype, "pinned_empty");
  const std::int64_t count = num_elements(dims, "pinned_empty");
  if (count > (std::int64_t{1} << 58))
    throw InvalidArgument(
        cat("pinned_empty: shape ", to_string(dims), " needs more than 2**62 bytes"));
  const Device where = device_from_python(device, "pinned_empty");
  std::shared_ptr<PinnedMemory> memory;
  {
    const WithoutGil released;
    memory = PinnedMemory::allocate(where, static_cast<std::size_t>(count) * itemsize(type));
  }
  const std::vector<py::ssize_t> sizes(dims.begin(), dims.end());
  void* data = memory->data();
  note_made("pinned memory", memory, memory->bytes());
  const py::capsule base(new std::shared_ptr<PinnedMemory>(std::move(memory)),
                         [](void* p) { delete static_cast<std::shared_ptr<PinnedMemory>*>(p); });
  return py::array(py::reinterpret_borrow<py::dtype>(numpy_dtype(type)), sizes, data, base);
}

void check_range(const char* op, const char* argument, std::size_t offset, std::size_t size,
                 const Array& array) {
  if (offset > array.nbytes() || size > array.nbytes() - offset)
    throw InvalidArgument(cat(op, ": bytes ", offset, " to ", offset + size, " of ", argument,
                              ", which has ", array.nbytes()));
}

void check_address(const char* op, const char* argument, std::uintptr_t address, std::size_t bytes,
                   const char* name, const Array& array) {
  check_range(op, name, 0, bytes, array);
  if (address == 0 && bytes > 0) throw InvalidArgument(cat(op, ": ", argument, " is null"));
  if (!array.is_contiguous()) throw InvalidArgument(cat(op, ": ", name, " is not contiguous"));
}

// Runs `copy` now, or at each replay of the CPU graph being captured.
void run_host_copy(std::function<void()> copy) {
  if (Graph* graph = capturing_graph(); graph != nullptr && !graph->device().is_cuda()) {
    graph->record_host_call(std::move(copy));
  } else {
    copy();
  }
}

// From a raw host address to the start of an array. Asynchronous when the memory is pinned.
void copy_to_device_async(const Array& dst, std::uintptr_t src, std::size_t bytes,
                          py::handle stream, const char* op) {
  check_address(op, "src_ptr", src, bytes, "dst", dst);
  const void* source = reinterpret_cast<const void*>(src);
  const auto on = stream_from_python(stream, dst.device(), op);
  if (!dst.device().is_cuda()) {
    run_host_copy([dst, source, bytes, on] {
      const BufferUse use(dst.buffer(), on);
      std::memcpy(dst.data(), source, bytes);
    });
    return;
  }
  const WithoutGil released;
  const Array* const arrays[] = {&dst};
  const ops::Submission submission("a copy", arrays, on);
  copy_to_device(dst.device_ptr(), source, bytes, *on);
}

// From the start of an array to a raw host address. Asynchronous when the memory is pinned.
void copy_to_host_async(const Array& src, std::uintptr_t dst, std::size_t bytes,
                        py::handle stream) {
  constexpr const char* kOp = "copy_to_host_async";
  check_address(kOp, "dst_ptr", dst, bytes, "src", src);
  void* target = reinterpret_cast<void*>(dst);
  const auto on = stream_from_python(stream, src.device(), kOp);
  if (!src.device().is_cuda()) {
    run_host_copy([src, target, bytes, on] {
      const BufferUse use(src.buffer(), on);
      std::memcpy(target, src.data(), bytes);
    });
    return;
  }
  const WithoutGil released;
  const Array* const arrays[] = {&src};
  const ops::Submission submission("a copy", arrays, on);
  copy_to_host(target, src.device_ptr(), bytes, *on);
}

void copy_to_device_now(const Array& dst, std::uintptr_t src, std::size_t bytes) {
  forbid_in_capture("copy_to_device", "it waits for the copy");
  if (!dst.device().is_cuda()) {
    copy_to_device_async(dst, src, bytes, py::none(), "copy_to_device");
    return;
  }
  check_address("copy_to_device", "src_ptr", src, bytes, "dst", dst);
  const WithoutGil released;
  const auto& stream = current_stream(dst.device());
  const BufferUse use(dst.buffer(), stream);
  device::upload(dst.device_ptr(), reinterpret_cast<const void*>(src), bytes, stream);
  stream->synchronize();
}

void copy_device_to_device(const Array& dst, const Array& src, py::handle stream) {
  const auto on = stream_from_python(stream, dst.device(), "copy_device_to_device_async");
  const WithoutGil released;
  const StreamScope scope(on);
  copy(dst, src, "copy_device_to_device_async");
}

void copy_with_offsets(const Array& dst, std::size_t dst_offset, const Array& src,
                       std::size_t src_offset, std::size_t bytes) {
  constexpr const char* kOp = "copy_device_to_device_offset";
  check_range(kOp, "dst", dst_offset, bytes, dst);
  check_range(kOp, "src", src_offset, bytes, src);
  if (!dst.is_contiguous() || !src.is_contiguous())
    throw InvalidArgument(cat(kOp, ": both arrays must be contiguous"));
  const auto window = [&](const Array& array, std::size_t offset) {
    return Array(
        Dims{static_cast<std::int64_t>(bytes)}, Dims{1}, DType::kUInt8, array.buffer(),
        static_cast<std::int64_t>(offset) + array.offset_elems() * info(array.dtype()).bits / 8);
  };
  const WithoutGil released;
  copy(window(dst, dst_offset), window(src, src_offset), kOp);
}

}  // namespace

void bind_memory(py::module_& m) {
  const auto device = py::arg("device") = py::none();
  m.def("pinned_empty", pinned_empty, py::arg("shape"), py::arg("dtype") = "float32", py::kw_only(),
        device, "A NumPy array in pinned memory, for copies at full speed.");
  m.def("copy_to_device", copy_to_device_now, py::arg("dst"), py::arg("src_ptr"),
        py::arg("size_bytes"), "Copies from a host address and waits.");
  m.def(
      "copy_to_device_async",
      [](const Array& dst, std::uintptr_t src, std::size_t bytes, py::handle stream) {
        copy_to_device_async(dst, src, bytes, stream, "copy_to_device_async");
      },
      py::arg("dst"), py::arg("src_ptr"), py::arg("size_bytes"), py::arg("stream") = py::none(),
      "Copies from a host address on a stream (a Stream, a handle or None).");
  m.def("copy_to_host_async", copy_to_host_async, py::arg("src"), py::arg("dst_ptr"),
        py::arg("size_bytes"), py::arg("stream") = py::none(),
        "Copies to a host address on a stream; wait for the stream before reading.");
  m.def("copy_device_to_device_async", copy_device_to_device, py::arg("dst"), py::arg("src"),
        py::arg("stream") = py::none(), "Copies one array into another on a stream.");
  m.def("copy_device_to_device_offset", copy_with_offsets, py::arg("dst"), py::arg("dst_offset"),
        py::arg("src"), py::arg("src_offset"), py::arg("size"),
        "Copies `size` bytes between byte offsets of two arrays.");
}

}  // namespace gpk::bind
