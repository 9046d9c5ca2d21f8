"""Speculative and Jacobi decoding of 0.2: rounds that settle one or more tokens.

gp.llm.SelfSpeculation and gp.llm.Jacobi do the same for a whole text in C++; here the caller has
the cache and the position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pygpukit import _native
from pygpukit._compat.llm_decode import DecodeM1
from pygpukit.core.arguments import whole
from pygpukit.core.errors import InvalidValueError

if TYPE_CHECKING:
    from pygpukit._compat.llm_buffers import ScratchRows
    from pygpukit._compat.llm_model import CausalTransformerModel, Round


class _Rounds(DecodeM1):
    """Rounds that settle one or more tokens, the ones greedy decoding would give.

    The pass that checks guesses writes the keys and values of those it accepts, up to rounding the
    same ones as a pass of one token: nothing is run again. Later entries of the caches are
    overwritten.
    """

    def _room(self, position: int, wanted: int) -> int:
        """Tokens that a round may guess."""
        room = min(block.attn.max_cache_len for block in self.model.blocks) - position
        return max(min(wanted, room), 1)

    def _checked(
        self,
        token_id: int,
        guesses: list[int],
        position: int,
        context_len: int,
        buffers: ScratchRows | None,
    ) -> tuple[list[int], int]:
        """(what the model says after each token, how many guesses it agrees with)."""
        tokens = [token_id, *guesses]
        end = context_len + len(guesses)
        said = self._argmax(self._forward(tokens, position, end, buffers))
        agreed = 0
        while agreed < len(guesses) and guesses[agreed] == said[agreed]:
            agreed += 1
        return said, agreed

    def _lookahead(self, result: Round, position: int) -> Round:
        """The round's tokens are settled: those before the last one are in the caches."""
        tokens, new_position, stats = result
        self.model.set_lookahead_confirmed_pos(position)
        self.model.commit_lookahead_all(len(tokens))
        return tokens, new_position, stats


class DecodeSpeculative(_Rounds):
    """Drafts by the first blocks of the same model, checked by all of them at once."""

    def __init__(self, max_draft_tokens: int = 4, draft_layers: int = 8) -> None:
        super().__init__()
        op = "DecodeSpeculative"
        self.max_draft_tokens = whole(op, "max_draft_tokens", max_draft_tokens, 1)
        self.draft_layers = whole(op, "draft_layers", draft_layers, 1)

    def step_speculative(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> Round:
        """(new tokens, position of the last of them, counts): 1 to max_draft_tokens tokens.

        Drafts are kept while the model agrees; the first one that it does not agree with is
        replaced and ends the round.
        """
        drafts: list[int] = []
        count = self._room(position, self.max_draft_tokens)
        for i in range(count):
            last = drafts[-1] if drafts else token_id
            hidden = self._forward([last], position + i, context_len + i, None, self.draft_layers)
            drafts += self._argmax(hidden)
        said, agreed = self._checked(token_id, drafts[:-1], position, context_len, buffers)
        accepted = agreed + (agreed == count - 1 and drafts[-1] == said[-1])
        tokens = said[: agreed + 1]
        stats = {"draft_count": count, "accepted_count": accepted}
        return tokens, position + len(tokens), stats

    def step_lookahead(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> Round:
        """step_speculative(), with the settled position of the caches kept."""
        result = self.step_speculative(token_id, position, context_len, buffers)
        return self._lookahead(result, position)


_INIT = ("repeat", "ngram", "greedy")


class DecodeJacobi(_Rounds):
    """Guesses of the next tokens, replaced by what the model says after them until they agree.

    First guesses: the last token again ("repeat"), what came after its last occurrence in this
    strategy's tokens ("ngram"), or what the model says after it ("greedy").
    """

    def __init__(self, n_tokens: int = 8, max_iter: int = 3, init_strategy: str = "repeat") -> None:
        super().__init__()
        self.n_tokens = whole("DecodeJacobi", "n_tokens", n_tokens, 1)
        self.max_iter = whole("DecodeJacobi", "max_iter", max_iter, 1)
        if init_strategy not in _INIT:
            raise InvalidValueError(
                f"DecodeJacobi: init_strategy is {_native.safe_repr(init_strategy)}, expected one "
                f"of {', '.join(_INIT)}"
            )
        self.init_strategy = init_strategy
        self._seen: list[int] = []

    def bind(self, model: CausalTransformerModel) -> None:
        """The model that steps run; tokens of another text are forgotten."""
        super().bind(model)
        self._seen = []

    def _first_guesses(
        self, token_id: int, position: int, context_len: int, count: int
    ) -> list[int]:
        if self.init_strategy == "greedy" and count:
            token_id = self._argmax(self._forward([token_id], position, context_len))[0]
        guesses: list[int] = []
        if self.init_strategy == "ngram" and token_id in self._seen:
            last = len(self._seen) - 1 - self._seen[::-1].index(token_id)
            guesses = self._seen[last + 1 : last + 1 + count]
        return guesses + [token_id] * (count - len(guesses))

    def step_jacobi(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> Round:
        """(new tokens, position of the last of them, what happened): 1 to n_tokens tokens."""
        count = self._room(position, self.n_tokens)
        guesses = self._first_guesses(token_id, position, context_len, count - 1)
        iterations = 0
        while True:
            iterations += 1
            said, agreed = self._checked(token_id, guesses, position, context_len, buffers)
            if agreed == len(guesses) or iterations == self.max_iter:
                break
            guesses = said[:-1]
        tokens = said[: agreed + 1]
        self._seen += [token_id, *tokens[:-1]]
        stats: dict[str, Any] = {
            "iterations": iterations,
            "converged": agreed == len(guesses),
            "accepted_count": len(tokens),
        }
        return tokens, position + len(tokens), stats

    def step_lookahead(
        self,
        token_id: int,
        position: int,
        context_len: int,
        buffers: ScratchRows | None = None,
    ) -> Round:
        """step_jacobi(), with the settled position of the caches kept."""
        return self._lookahead(self.step_jacobi(token_id, position, context_len, buffers), position)


__all__ = ["DecodeJacobi", "DecodeSpeculative"]
