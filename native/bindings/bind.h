// One function per binding file; module.cpp calls them in order.
#pragma once

#include "bindings/python.h"

namespace gpk::bind {

void bind_dtype(py::module_& m);
void bind_array_type(py::module_& m);
void bind_array(py::module_& m);
void bind_stream(py::module_& m);
void bind_graph(py::module_& m);
void bind_device(py::module_& m);
void bind_memory(py::module_& m);
void bind_pool(py::module_& m);
void bind_ops(py::module_& m);
void bind_elementwise(py::module_& m);
void bind_fused(py::module_& m);
void bind_reduction(py::module_& m);
void bind_sorting(py::module_& m);
void bind_indexing(py::module_& m);
void bind_matmul(py::module_& m);
void bind_contraction(py::module_& m);
void bind_scaled_grouped(py::module_& m);
void bind_matmul_plan(py::module_& m);
void bind_host(py::module_& m);
void bind_random(py::module_& m);
void bind_nn(py::module_& m);
void bind_rope_scaling(py::module_& m);
void bind_attention(py::module_& m);
void bind_moe(py::module_& m);
void bind_quantize(py::module_& m);
void bind_sampling(py::module_& m);
void bind_kv_cache(py::module_& m);
void bind_conv(py::module_& m);
void bind_recurrent(py::module_& m);
void bind_linalg(py::module_& m);
void bind_fft(py::module_& m);
void bind_audio(py::module_& m);
void bind_llm(py::module_& m);
void bind_llm_engine(py::module_& m);
void bind_llm_decode(py::module_& m);
void bind_llm_parts(py::module_& m);
void bind_whisper(py::module_& m);
void bind_safetensors(py::module_& m);
void bind_torch_file(py::module_& m);
void bind_kokoro(py::module_& m);
void bind_interop(py::module_& m);
void bind_cuda_interface(py::module_& m);
void bind_view(py::module_& m);
void bind_manipulation(py::module_& m);

void bind_kernel_types(py::module_& m);
void bind_jit(py::module_& m);
void bind_sim(py::module_& m);
void bind_floor(py::module_& m);
void bind_trace(py::module_& m);
void bind_transfer(py::module_& m);
void bind_partition(py::module_& m);
void bind_runtime(py::module_& m);

}  // namespace gpk::bind
