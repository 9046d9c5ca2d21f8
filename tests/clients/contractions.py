"""einops and opt_einsum."""

from __future__ import annotations

from typing import Any

import einops
import einops.array_api
import numpy as np
import opt_einsum

from clients.uses import Use

RNG = np.random.default_rng(34)
X = RNG.normal(size=(6, 4, 3))
A, B, C = RNG.normal(size=(5, 7)), RNG.normal(size=(7, 4)), RNG.normal(size=(4, 6))


def _packed(a: Any) -> Any:
    packed, shapes = einops.array_api.pack([a(X), a(X[:, 0])], "a * c")
    return packed, *einops.array_api.unpack(packed, shapes, "a * c")


def _shared(a: Any) -> Any:
    with opt_einsum.shared_intermediates():
        return opt_einsum.contract("ij,jk,kl->il", *map(a, (A, B, C)))


def _expression(a: Any) -> Any:
    expression = opt_einsum.contract_expression("ij,jk,kl->il", A.shape, B.shape, C.shape)
    return expression(*map(a, (A, B, C)))


def _constants(a: Any) -> Any:
    expression = opt_einsum.contract_expression(
        "ij,jk,kl->il", a(A), B.shape, a(C), constants=[0, 2]
    )
    return expression(a(B))


USES: dict[str, Use] = {
    "rearrange": Use(lambda a: einops.array_api.rearrange(a(X), "a (b d) c -> (a d) c b", d=2)),
    **{
        f"reduce {how}": Use(
            lambda a, how=how: einops.array_api.reduce(a(X), "a (b d) c -> a d", how, d=2)
        )
        for how in ("sum", "mean", "max", "min", "prod")
    },
    "repeat": Use(lambda a: einops.array_api.repeat(a(X), "a b c -> a (b r) c n", r=2, n=3)),
    "pack": Use(_packed),
    "contract": Use(lambda a: opt_einsum.contract("ij,jk,kl->il", *map(a, (A, B, C)))),
    "contract in an order": Use(
        lambda a: [
            opt_einsum.contract("ij,jk,kl->", *map(a, (A, B, C)), optimize=order)
            for order in ("greedy", "optimal", "branch-2", "auto")
        ]
    ),
    "contract of every kind": Use(
        lambda a: (
            opt_einsum.contract("ii->i", a(A[:, :5])),
            opt_einsum.contract("...ij,...kj->...ik", a(X), a(X)),
            opt_einsum.contract("i,j->ij", a(A[0]), a(B[0])),
            opt_einsum.contract("ij,ij->ij", a(A), a(A)),
            opt_einsum.contract("ijk->", a(X)),
        )
    ),
    "expression": Use(_expression),
    "constants": Use(_constants),
    "shared intermediates": Use(_shared),
}
