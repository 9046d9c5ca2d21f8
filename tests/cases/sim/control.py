"""Random control flow: nested ifs, loops, switches and calls, and graphs of any shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .program import LANES, Bytes, Program, lane_program, lane_source, seed_of, values, words

U32 = NDArray[np.uint32]
VARIABLES = 8
STRUCTURED, GRAPHS = 320, 320

# Name in PTX: what it does to vectors of uint32.
OPS: dict[str, Callable[[U32, U32], U32]] = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "xor.b32": lambda a, b: a ^ b,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "min.u32": np.minimum,
    "max.s32": lambda a, b: np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
}
TESTS: dict[str, Callable[[U32, U32], NDArray[np.bool_]]] = {
    "lt.u32": lambda a, b: a < b,
    "ge.s32": lambda a, b: a.view(np.int32) >= b.view(np.int32),
    "eq.u32": lambda a, b: a == b,
    "ne.u32": lambda a, b: a != b,
}
# The same of one lane.
ON_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "xor.b32": lambda a, b: a ^ b,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "min.u32": min,
    "max.s32": lambda a, b: max(a, b, key=lambda x: x ^ 1 << 31),
    "lt.u32": lambda a, b: a < b,
    "ge.s32": lambda a, b: (a ^ 1 << 31) >= (b ^ 1 << 31),
    "eq.u32": lambda a, b: a == b,
    "ne.u32": lambda a, b: a != b,
}


@dataclass
class Writer:
    """Emits PTX and, beside it, closures that run it on all lanes under a mask."""

    rng: np.random.Generator
    prefix: str
    lines: list[str] = field(default_factory=list)
    fresh: int = 0

    def pick(self, items: object) -> object:
        return list(items)[self.rng.integers(0, len(list(items)))]

    def name(self, kind: str = "t") -> str:
        self.fresh += 1
        return f"%{self.prefix}{kind}{self.fresh}"

    def label(self) -> str:
        self.fresh += 1
        return f"L{self.prefix}{self.fresh}"

    def emit(self, line: str) -> None:
        self.lines.append(line)


State = list[U32]
Step = Callable[[State, NDArray[np.bool_]], None]


def operand(w: Writer) -> tuple[str, Callable[[State], U32]]:
    if w.rng.random() < 0.25:
        value = int(w.rng.integers(0, 40))
        return str(value), lambda state: np.full(LANES, value, np.uint32)
    at = int(w.rng.integers(0, VARIABLES))
    return f"%v{w.prefix}{at}", lambda state: state[at]


def statement(w: Writer, depth: int, functions: list[Step]) -> Step:
    kinds = ["op"] * 4 + ["chain", "guarded"] + ["if", "loop", "switch"] * (depth > 0)
    kinds += ["call"] * bool(functions)
    kind = w.pick(kinds)
    if kind == "if":
        return if_else(w, depth, functions)
    if kind == "loop":
        return loop(w, depth, functions)
    if kind == "switch":
        return switch(w, depth, functions)
    if kind == "call":
        return call(w, functions)
    return assignment(w, str(kind))


def assignment(w: Writer, kind: str) -> Step:
    """op: v = a . b. chain: through temporaries. guarded: under a predicate."""
    at = int(w.rng.integers(0, VARIABLES))
    target = f"%v{w.prefix}{at}"
    name = str(w.pick(OPS))
    (a, read_a), (b, read_b) = operand(w), operand(w)
    of = OPS[name]
    if kind == "guarded":
        test, guard = str(w.pick(TESTS)), w.name("p")
        (c, read_c), (d, read_d) = operand(w), operand(w)
        w.emit(f".reg .pred {guard};\nsetp.{test} {guard}, {c}, {d};")
        w.emit(f"@!{guard} {name} {target}, {a}, {b};")

        def guarded(state: State, mask: NDArray[np.bool_]) -> None:
            off = ~TESTS[test](read_c(state), read_d(state))
            state[at] = np.where(mask & off, of(read_a(state), read_b(state)), state[at])

        return guarded
    if kind == "chain":
        first, second = w.name(), w.name()
        other = str(w.pick(OPS))
        w.emit(f".reg .b32 {first}, {second};")
        w.emit(f"{name} {first}, {a}, {b};\n{other} {second}, {first}, {a};")
        w.emit(f"xor.b32 {target}, {second}, {first};")

        def chain(state: State, mask: NDArray[np.bool_]) -> None:
            x = of(read_a(state), read_b(state))
            y = OPS[other](x, read_a(state))
            state[at] = np.where(mask, x ^ y, state[at])

        return chain
    w.emit(f"{name} {target}, {a}, {b};")

    def assign(state: State, mask: NDArray[np.bool_]) -> None:
        state[at] = np.where(mask, of(read_a(state), read_b(state)), state[at])

    return assign


def block(w: Writer, depth: int, functions: list[Step], most: int = 4) -> Step:
    steps = [statement(w, depth, functions) for _ in range(w.rng.integers(1, most + 1))]

    def run(state: State, mask: NDArray[np.bool_]) -> None:
        for step in steps:
            step(state, mask)

    return run


def if_else(w: Writer, depth: int, functions: list[Step]) -> Step:
    test, guard = str(w.pick(TESTS)), w.name("p")
    (a, read_a), (b, read_b) = operand(w), operand(w)
    otherwise, end = w.label(), w.label()
    w.emit(f".reg .pred {guard};\nsetp.{test} {guard}, {a}, {b};\n@!{guard} bra {otherwise};")
    yes = block(w, depth - 1, functions)
    has_else = w.rng.random() < 0.6
    if has_else:
        w.emit(f"bra {end};")
    w.emit(f"{otherwise}:")
    no = block(w, depth - 1, functions) if has_else else None
    w.emit(f"{end}:")

    def run(state: State, mask: NDArray[np.bool_]) -> None:
        taken = TESTS[test](read_a(state), read_b(state))
        yes(state, mask & taken)
        if no is not None:
            no(state, mask & ~taken)

    return run


def loop(w: Writer, depth: int, functions: list[Step]) -> Step:
    """Up to four rounds, another number in each lane, with a break in the middle."""
    at = int(w.rng.integers(0, VARIABLES))
    counter, guard, test = w.name(), w.name("p"), str(w.pick(TESTS))
    head, end = w.label(), w.label()
    w.emit(f".reg .b32 {counter};\n.reg .pred {guard};\nand.b32 {counter}, %v{w.prefix}{at}, 3;")
    w.emit(f"{head}:")
    first = block(w, depth - 1, functions, 2)
    (a, read_a), (b, read_b) = operand(w), operand(w)
    w.emit(f"setp.{test} {guard}, {a}, {b};\n@{guard} bra {end};")
    second = block(w, depth - 1, functions, 2)
    w.emit(f"setp.eq.u32 {guard}, {counter}, 0;\nsub.u32 {counter}, {counter}, 1;")
    w.emit(f"@!{guard} bra {head};\n{end}:")

    def run(state: State, mask: NDArray[np.bool_]) -> None:
        left = state[at] & 3
        mask = mask.copy()
        while mask.any():
            first(state, mask)
            mask &= ~TESTS[test](read_a(state), read_b(state))
            second(state, mask)
            mask &= left != 0
            left = left - np.uint32(1)

    return run


def switch(w: Writer, depth: int, functions: list[Step]) -> Step:
    at = int(w.rng.integers(0, VARIABLES))
    index, table, end = w.name(), w.label(), w.label()
    cases = [w.label() for _ in range(4)]
    w.emit(f".reg .b32 {index};\nand.b32 {index}, %v{w.prefix}{at}, 3;")
    w.emit(f"{table}: .branchtargets {', '.join(cases)};\nbrx.idx {index}, {table};")
    falls, steps = [], []
    for case in cases:
        w.emit(f"{case}:")
        steps.append(block(w, depth - 1, functions, 2))
        falls.append(bool(w.rng.random() < 0.4))
        if not falls[-1]:
            w.emit(f"bra {end};")
    w.emit(f"{end}:")

    def run(state: State, mask: NDArray[np.bool_]) -> None:
        picked = state[at] & 3
        now = np.zeros(LANES, bool)
        for case, step in enumerate(steps):
            now |= mask & (picked == case)
            step(state, now)
            if not falls[case]:
                now = np.zeros(LANES, bool)

    return run


def call(w: Writer, functions: list[Step]) -> Step:
    which, at = int(w.rng.integers(0, len(functions))), int(w.rng.integers(0, VARIABLES))
    (a, read_a), (b, read_b) = operand(w), operand(w)
    w.emit("{ .param .b32 x; .param .b32 y; .param .b32 z; .reg .b32 %a, %b;")
    w.emit(f"mov.u32 %a, {a};\nmov.u32 %b, {b};\nst.param.b32 [x], %a;\nst.param.b32 [y], %b;")
    w.emit(f"call (z), f{which}, (x, y);\nld.param.b32 %v{w.prefix}{at}, [z]; }}")

    def run(state: State, mask: NDArray[np.bool_]) -> None:
        inner = start(read_a(state), read_b(state))
        functions[which](inner, mask)
        state[at] = np.where(mask, finish(inner), state[at])

    return run


def start(a: U32, b: U32) -> State:
    return [a + np.uint32(k) * b for k in range(VARIABLES)]


def finish(state: State) -> U32:
    result = state[0]
    for one in state[1:]:
        result = result * np.uint32(31) ^ one
    return result


def variables(prefix: str, a: str, b: str) -> str:
    lines = [f".reg .b32 %v{prefix}<{VARIABLES}>;"]
    lines += [f"mad.lo.u32 %v{prefix}{k}, {b}, {k}, {a};" for k in range(VARIABLES)]
    return "\n".join(lines)


def hashed(prefix: str, result: str) -> str:
    lines = [f"mov.u32 {result}, %v{prefix}0;"]
    for k in range(1, VARIABLES):
        lines += [
            f"mul.lo.u32 {result}, {result}, 31;",
            f"xor.b32 {result}, {result}, %v{prefix}{k};",
        ]
    return "\n".join(lines)


def structured(index: int) -> Program:
    name = f"control/structured-{index}"
    rng = np.random.default_rng(seed_of(name))
    functions: list[Step] = []
    declarations = ""
    for which in range(int(rng.integers(0, 3))):
        w = Writer(rng, f"g{which}x")
        step = block(w, 1, list(functions))  # calls only what stands before it
        functions.append(step)
        declarations += (
            f".func (.param .b32 r) f{which}(.param .b32 x, .param .b32 y)\n{{\n"
            f".reg .b32 %a, %b, %c;\nld.param.b32 %a, [x];\nld.param.b32 %b, [y];\n"
            + variables(w.prefix, "%a", "%b")
            + "\n"
            + "\n".join(w.lines)
            + f"\n{hashed(w.prefix, '%c')}\nst.param.b32 [r], %c;\nret;\n}}\n"
        )
    w = Writer(rng, "m")
    step = block(w, 3, functions, 8)
    body = f"{variables('m', '%r4', '%r5')}\n" + "\n".join(w.lines)
    body += f"\n{hashed('m', '%r7')}\ncvt.u64.u32 %rd7, %r7;"

    def image() -> Bytes:
        rng = np.random.default_rng(index)
        return words(*(values("int", rng) for _ in range(3)))

    def expect(image: Bytes) -> Bytes:
        a, b = (column.astype(np.uint32) for column in image.view(np.uint64).reshape(3, LANES)[:2])
        state = start(a, b)
        step(state, np.ones(LANES, bool))
        return finish(state).astype(np.uint64).view(np.uint8)

    return Program(name, lane_source(body, 80, declarations), image, 8 * LANES, expect)


def graph(index: int) -> Program:
    """Basic blocks with branches to anywhere; a budget of steps ends the walk of a lane."""
    name = f"control/graph-{index}"
    rng = np.random.default_rng(seed_of(name))
    count, budget = int(rng.integers(3, 14)), 24
    nodes = []
    lines = [
        variables("m", "%r4", "%r5"),
        f".reg .b32 %steps;\nmov.u32 %steps, {budget};",
        "bra B0;",
    ]
    # Blocks stand in any order.
    for at in rng.permutation(count).tolist():
        ops = []
        lines.append(
            f"B{at}:\nsub.u32 %steps, %steps, 1;\nsetp.eq.u32 %p1, %steps, 0;\n@%p1 bra END;"
        )
        for _ in range(int(rng.integers(1, 4))):
            op = list(OPS)[rng.integers(0, len(OPS))]
            d, a, b = rng.integers(0, VARIABLES, 3).tolist()
            ops.append((op, d, a, b))
            lines.append(f"{op} %vm{d}, %vm{a}, %vm{b};")
        test = list(TESTS)[rng.integers(0, len(TESTS))]
        a, b = rng.integers(0, VARIABLES, 2).tolist()
        yes, no = rng.integers(0, count + 1, 2).tolist()  # count: the end
        names = [f"B{x}" if x < count else "END" for x in (yes, no)]
        lines.append(f"setp.{test} %p2, %vm{a}, %vm{b};\n@%p2 bra {names[0]};\nbra {names[1]};")
        nodes.append((at, ops, test, a, b, yes, no))
    table = {node[0]: node for node in nodes}
    lines.append(f"END:\n{hashed('m', '%r7')}\ncvt.u64.u32 %rd7, %r7;")

    def of(a: int, b: int, c: int) -> int:
        state = [(a + k * b) & 0xFFFFFFFF for k in range(VARIABLES)]
        at, steps = 0, budget
        while at < count:
            steps -= 1
            if steps == 0:
                break
            _, ops, test, x, y, yes, no = table[at]
            for op, d, p, q in ops:
                state[d] = ON_INTEGERS[op](state[p], state[q]) & 0xFFFFFFFF
            at = yes if ON_INTEGERS[test](state[x], state[y]) else no
        result = state[0]
        for one in state[1:]:
            result = result * 31 & 0xFFFFFFFF ^ one
        return result

    return lane_program(name, "\n".join(lines), "int", of)


RECURSION = """.func (.param .b32 r) f(.param .b32 x)
{
.reg .b32 %n, %a, %b; .reg .pred %p;
ld.param.b32 %n, [x];
setp.lt.u32 %p, %n, 2;
mov.u32 %a, %n;
@%p bra DONE;
sub.u32 %a, %n, 1;
{ .param .b32 s; .param .b32 t; st.param.b32 [s], %a; call (t), f, (s); ld.param.b32 %a, [t]; }
sub.u32 %b, %n, 2;
{ .param .b32 s; .param .b32 t; st.param.b32 [s], %b; call (t), f, (s); ld.param.b32 %b, [t]; }
mad.lo.u32 %a, %a, 3, %b;
DONE: st.param.b32 [r], %a;
ret;
}
"""


def recursion() -> Program:
    def f(n: int) -> int:
        return n if n < 2 else f(n - 1) * 3 + f(n - 2)

    body = (
        "and.b32 %r8, %r4, 7;\n{ .param .b32 s; .param .b32 t; st.param.b32 [s], %r8;\n"
        "call (t), f, (s);\nld.param.b32 %r7, [t]; }\ncvt.u64.u32 %rd7, %r7;"
    )
    return lane_program("control/recursion", body, "int", lambda a, b, c: f(a & 7), 80, RECURSION)


def programs() -> Iterator[Program]:
    yield recursion()
    for index in range(STRUCTURED):
        yield structured(index)
    for index in range(GRAPHS):
        yield graph(index)
