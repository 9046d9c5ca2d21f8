"""Kernels from a few lines of CUDA C: their parameters, types and source text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._native import GPUArray, safe_repr
from pygpukit.core.errors import InvalidTypeError, InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Sequence

C_TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
}
_WORD = re.compile(r"[A-Za-z_]\w*$")


@dataclass(frozen=True)
class Parameter:
    """`raw T x`: a name, the dtype or the letter that stands for one, and whether it is raw."""

    name: str
    type: str
    raw: bool

    @property
    def is_generic(self) -> bool:
        return self.type not in C_TYPES


def parse(op: str, argument: str, text: str) -> tuple[Parameter, ...]:
    """'T x, raw float32 y' as parameters."""
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        words = part.split()
        raw = words[0] == "raw"
        if len(words) != 2 + raw or not all(_WORD.match(word) for word in words):
            raise InvalidValueError(
                f"{op}: {argument} has {safe_repr(part)}, expected '[raw] type name'"
            )
        found.append(Parameter(words[-1], words[-2], raw))
    return tuple(found)


def resolve(
    op: str, parameters: Sequence[Parameter], values: Sequence[Any], given: dict[str, str]
) -> dict[str, str]:
    """The dtype of each letter, from the arrays first and from numbers where there is none."""
    types = dict(given)
    weak: dict[str, Any] = {}
    for parameter, value in zip(parameters, values, strict=True):
        if not isinstance(value, GPUArray):
            if parameter.is_generic:
                weak.setdefault(parameter.type, value)
            continue
        dtype = value.dtype.name
        if dtype not in C_TYPES:
            raise InvalidTypeError(f"{op}: {parameter.name} has dtype {dtype}, which has no C type")
        want = types.get(parameter.type, dtype) if parameter.is_generic else parameter.type
        if parameter.is_generic:
            types.setdefault(parameter.type, dtype)
        if dtype != want:
            raise InvalidTypeError(f"{op}: {parameter.name} has dtype {dtype}, expected {want}")
    for letter, value in weak.items():
        types.setdefault(letter, _native.result_type(value).name)
    return types


def dtype_of(op: str, parameter: Parameter, types: dict[str, str]) -> str:
    if not parameter.is_generic:
        return parameter.type
    if parameter.type not in types:
        raise InvalidTypeError(
            f"{op}: the type {parameter.type} of {parameter.name} does not follow from an argument"
        )
    return types[parameter.type]


def typedefs(types: dict[str, str]) -> str:
    return "".join(f"typedef {C_TYPES[dtype]} {name};\n" for name, dtype in sorted(types.items()))


# What CuPy's kernels may call: the number of elements.
INDEXER = "struct Indexer_ { long long n; __device__ long long size() const { return n; } };\n"


def elementwise_source(
    name: str,
    operation: str,
    preamble: str,
    inputs: Sequence[tuple[Parameter, str, bool]],
    outputs: Sequence[tuple[Parameter, str]],
    types: dict[str, str],
) -> str:
    """inputs: parameter, dtype, whether it is an array; outputs: parameter, dtype."""
    signature, loads = _inputs(inputs)
    for parameter, dtype in outputs:
        c_type = C_TYPES[dtype]
        if parameter.raw:
            signature.append(f"{c_type}* {parameter.name}")
        else:
            signature.append(f"{c_type}* {parameter.name}_")
            loads.append(f"{c_type}& {parameter.name} = {parameter.name}_[i];")
    signature.append("long long n_")
    lines = "\n    ".join(loads)
    return f"""{typedefs(types)}{INDEXER}{preamble}
extern "C" __global__ void {name}({", ".join(signature)}) {{
  const Indexer_ _ind{{n_}};
  const long long step_ = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n_;
       i += step_) {{
    {lines}
    {operation};
  }}
}}
"""


def _inputs(inputs: Sequence[tuple[Parameter, str, bool]]) -> tuple[list[str], list[str]]:
    """The signature's parameters, and the lines that load an element of each."""
    signature, loads = [], []
    for parameter, dtype, is_array in inputs:
        c_type = C_TYPES[dtype]
        if parameter.raw:
            signature.append(f"const {c_type}* {parameter.name}")
        elif is_array:
            signature.append(f"const {c_type}* {parameter.name}_")
            loads.append(f"const {c_type} {parameter.name} = {parameter.name}_[i];")
        else:
            signature.append(f"{c_type} {parameter.name}")
    return signature, loads


REDUCE_THREADS = 256


def reduction_source(
    name: str,
    map_expr: str,
    reduce_expr: str,
    post_map_expr: str,
    identity: str,
    reduce_type: str,
    preamble: str,
    inputs: Sequence[tuple[Parameter, str, bool]],
    output: tuple[Parameter, str],
    types: dict[str, str],
) -> str:
    """A block for each result: threads stride over its elements, then a tree in shared memory."""
    signature, loads = _inputs(inputs)
    parameter, dtype = output
    signature += [f"{C_TYPES[dtype]}* {parameter.name}_", "long long n_"]
    lines = "\n    ".join(loads)
    return f"""{typedefs(types)}{INDEXER}{preamble}
typedef {reduce_type} type_in0_raw_;
static __device__ __forceinline__ type_in0_raw_ reduce_(type_in0_raw_ a, type_in0_raw_ b) {{
  return {reduce_expr};
}}
extern "C" __global__ void {name}({", ".join(signature)}) {{
  __shared__ type_in0_raw_ shared_[{REDUCE_THREADS}];
  const Indexer_ _in_ind{{n_}};
  const long long first_ = blockIdx.x * n_;
  type_in0_raw_ sum_ = {identity};
  for (long long at_ = threadIdx.x; at_ < n_; at_ += {REDUCE_THREADS}) {{
    const long long i = first_ + at_;
    {lines}
    sum_ = reduce_(sum_, static_cast<type_in0_raw_>({map_expr}));
  }}
  shared_[threadIdx.x] = sum_;
  for (int half_ = {REDUCE_THREADS} / 2; half_ > 0; half_ /= 2) {{
    __syncthreads();
    if (threadIdx.x < half_)
      shared_[threadIdx.x] = reduce_(shared_[threadIdx.x], shared_[threadIdx.x + half_]);
  }}
  if (threadIdx.x == 0) {{
    const type_in0_raw_ a = shared_[0];
    {C_TYPES[dtype]}& {parameter.name} = {parameter.name}_[blockIdx.x];
    {post_map_expr};
  }}
}}
"""
