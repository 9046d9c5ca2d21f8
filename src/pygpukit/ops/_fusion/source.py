"""CUDA C from a trace: a functor for the elementwise kernels, or passes over rows.

A function with ops over rows becomes passes: pass 0 reads the inputs and feeds the reductions of
values that need no other reduction, pass 1 those that need the results of pass 0, and so on; the
last pass writes the result. What a later pass uses is held in registers, or, where the row does not
fit (`streamed`), computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pygpukit._native import DataType
from pygpukit.ops._fusion.trace import Expr, Node, Reduction, RowValue, Trace, Value, cuda_type

Inputs = list[tuple[DataType, bool]]  # dtype, whether it is a number


def elementwise_source(name: str, trace: Trace, inputs: Inputs, result: Expr) -> str:
    """A functor for native/kernels/elementwise/map.cuh."""
    parameters = ", ".join(
        f"Compute<{cuda_type(dtype)}> x{i}" for i, (dtype, _) in enumerate(inputs)
    )
    body = "\n".join(f"    {_line(node)}" for node in trace.nodes if isinstance(node, Value))
    return f"""
namespace gpk {{
struct Fused {{  // {name}
  template <class T>
  static __device__ __forceinline__ auto run({parameters}) {{
{body}
    return {result._name};
  }}
}};
}}  // namespace gpk
"""


def _line(node: Value) -> str:
    return f"const {cuda_type(node.dtype)} {node.name} = {node.text};"


# --- rows ---------------------------------------------------------------------------------------


@dataclass
class _Pass:
    """What one pass over the row does, in this order."""

    reductions: list[Reduction] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)  # inputs read from memory
    kept: list[str] = field(default_factory=list)  # values held by an earlier pass
    values: list[Value] = field(default_factory=list)
    row_values: list[RowValue] = field(default_factory=list)  # after it


def _made(one: _Pass) -> list[str]:
    return [*one.loads, *(value.name for value in one.values)]


class RowSource:
    """The functor for native/kernels/nn/fused_rows.cuh, and what a plan has to know of it."""

    def __init__(self, name: str, trace: Trace, inputs: Inputs, result: Expr) -> None:
        self._inputs = {f"x{i}": (i, dtype, number) for i, (dtype, number) in enumerate(inputs)}
        self._nodes: dict[str, Node] = {node.name: node for node in trace.nodes}
        self._result = result
        # What weights are computed from is as wide as one row: read again, from the cache.
        self._shared = 0
        for use in trace.uses:
            self._shared |= use.arrays if use.is_vector else 0
        held_passes, self._held = self._passes(hold=True)
        again, _ = self._passes(hold=False)
        self.held_bytes = self._held_bytes(held_passes)
        self.num_values = max(len(one.values) for one in held_passes)
        self.text = f"""
namespace gpk {{
struct Fused {{  // {name}
  template <class R>
  static __device__ __forceinline__ void run(const R& row) {{
    if constexpr (R::kHeld) {{
      run_held(row);
    }} else {{
      run_streamed(row);
    }}
  }}

  template <class R>
  static __device__ __forceinline__ void run_held(const R& row) {{
{self._body(held_passes, self._held)}
  }}

  template <class R>
  static __device__ __forceinline__ void run_streamed(const R& row) {{
{self._body(again, [])}
  }}
}};
}}  // namespace gpk
"""

    def _dtype(self, name: str) -> DataType:
        if name in self._inputs:
            return self._inputs[name][1]
        node = self._nodes[name]
        assert isinstance(node, Value)
        return node.dtype

    def _held_bytes(self, passes: list[_Pass]) -> int:
        """Per element, the most that a pass has at once: held before it, or for a later one."""
        first = {name: i for i, one in reversed(list(enumerate(passes))) for name in _made(one)}
        last = {name: i for i, one in enumerate(passes) for name in one.kept}
        return max(
            sum(self._dtype(x).itemsize for x in self._held if first[x] <= i <= last[x])
            for i in range(len(passes))
        )

    def _levels(self) -> dict[str, int]:
        """The pass before which every value is known."""
        levels = dict.fromkeys(self._inputs, 0)
        for node in self._nodes.values():
            level = max((levels[name] for name in node.operands), default=0)
            levels[node.name] = level + isinstance(node, Reduction)
        return levels

    def _passes(self, *, hold: bool) -> tuple[list[_Pass], list[str]]:
        levels = self._levels()
        passes = [_Pass() for _ in range(levels[self._result._name] + 1)]
        for node in self._nodes.values():
            if isinstance(node, Reduction):
                passes[levels[node.name] - 1].reductions.append(node)
            elif isinstance(node, RowValue):
                passes[levels[node.name] - 1].row_values.append(node)
        known: set[str] = set()  # in an earlier pass
        held: list[str] = []
        for one in passes:
            self._fill(one, known if hold else set())
            known.update(_made(one))
            held += [name for name in one.kept if name not in held]
        return passes, held

    def _fill(self, one: _Pass, known: set[str]) -> None:
        """What the reductions of a pass, or the result, need from it."""
        wanted = {reduction.element for reduction in one.reductions} or {self._result._name}
        for node in reversed(self._nodes.values()):
            if node.name not in wanted or not isinstance(node, Value):
                continue
            if node.columns & ~self._shared and node.name in known:
                one.kept.insert(0, node.name)
            else:
                one.values.insert(0, node)
                wanted.update(node.operands)
        for name, (i, _, is_number) in self._inputs.items():
            if name in wanted:
                again = is_number or self._shared >> i & 1 or name not in known
                (one.loads if again else one.kept).append(name)

    def _body(self, passes: list[_Pass], held: list[str]) -> str:
        lines = []
        for name in self._inputs:
            if any(name in one.loads for one in passes):
                i, dtype, _ = self._inputs[name]
                lines.append(
                    f"const auto in_{name} = row.template input<{i}, {cuda_type(dtype)}>();"
                )
        lines += [
            f"typename R::template Held<{cuda_type(self._dtype(name))}> held_{name};"
            for name in held
        ]
        slot = 0
        for number, one in enumerate(passes):
            last = number + 1 == len(passes)
            lines += self._pass(one, held, last=last)
            for reduction in one.reductions:
                lines.append(
                    f"const {reduction.type} {reduction.name} = "
                    f"part_{reduction.name}.template result<{slot}>(row);"
                )
                slot ^= 1
            lines += [f"const {x.type} {x.name} = {x.text};" for x in one.row_values]
        return "\n".join(f"    {line}" for line in lines)

    def _pass(self, one: _Pass, held: list[str], *, last: bool) -> list[str]:
        arrays = [self._dtype(x).itemsize for x in one.loads if not self._inputs[x][2]]
        loads = f"{len(arrays)}, {sum(arrays)}, {len(one.values)}"
        lines = [f"{x.part} part_{x.name}{{{x.initial}}};" for x in one.reductions]
        lines += [f"held_{name}.forget();" for name in one.kept]
        result = cuda_type(self._result.dtype)
        if last:
            lines.append(
                f"row.template last<{loads}, {result}>([&](const auto& at, {result}* out) {{"
            )
        else:
            lines.append(f"row.template pass<{loads}>([&](const auto& at) {{")
        lines += [f"  const auto loaded_{name} = at.load(in_{name});" for name in one.loads]
        lines.append(
            "  at.store(out, [&](int a, int v) {" if last else "  at.each([&](int a, int v) {"
        )
        lines += [f"    {line}" for line in self._element(one, held)]
        if last:
            lines += [f"    return {self._result._name};", "  });", "});"]
        else:
            for x in one.reductions:
                lines.append(f"    part_{x.name}.add(to_compute({x.element}), v);")
            ends = " ".join(f"part_{x.name}.end();" for x in one.reductions)
            lines += [f"  }}, [&] {{ {ends} }});", "});"]
        return lines

    def _element(self, one: _Pass, held: list[str]) -> list[str]:
        lines = []
        for name in one.loads:
            lines.append(f"const auto {name} = loaded_{name}(a, v);")
            if name in held:
                lines.append(f"held_{name}.set(at, a, v, loaded_{name}.raw(a, v));")
        for name in one.kept:
            value = f"held_{name}.get(at, a, v)"
            if name in self._inputs:
                value = f"to_compute({value})"
            lines.append(f"const auto {name} = {value};")
        for node in one.values:
            lines.append(_line(node))
            if node.name in held:
                lines.append(f"held_{node.name}.set(at, a, v, {node.name});")
        return lines
