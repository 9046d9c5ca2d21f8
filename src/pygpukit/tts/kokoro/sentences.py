"""Long texts in pieces that the model takes."""

from __future__ import annotations

_END = "!.?\u2026\u3002\uff01\uff1f"
_CLOSING = "\"')\u201d\u2019\u300d"
# Where phonemes are cut: behind the last of the first kind that is there.
_CUTS = (_END, ":;", ",\u2014", " ")


def split_phonemes(phonemes: str, limit: int) -> list[str]:
    """Pieces of at most `limit` symbols: cut behind sentences, else clauses, else words."""
    pieces = []
    rest = phonemes.strip()
    while len(rest) > limit:
        at = _cut(rest, limit)
        pieces.append(rest[:at].strip())
        rest = rest[at:].strip()
    return [piece for piece in (*pieces, rest) if piece]


def _cut(phonemes: str, limit: int) -> int:
    head = phonemes[:limit]
    for marks in _CUTS:
        at = max(head.rfind(mark) for mark in marks) + 1
        while 0 < at < limit and phonemes[at] in _CLOSING:
            at += 1
        if at > 0:
            return at
    return limit


def pack(pieces: list[str], limit: int) -> list[list[int]]:
    """Neighbours that fit into `limit` symbols together, as positions."""
    groups: list[list[int]] = []
    size = 0
    for i, piece in enumerate(pieces):
        if groups and size + 1 + len(piece) <= limit:
            groups[-1].append(i)
            size += 1 + len(piece)
        else:
            groups.append([i])
            size = len(piece)
    return groups
