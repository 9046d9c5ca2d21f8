"""The vocabulary of Kokoro-82M: symbols of phonemes and their tokens."""

from __future__ import annotations

PAD = 0  # at both ends of every text

# First token: symbols of consecutive tokens, a space where a token has none.
_RUNS = {
    1: ";:,.!?",
    9: '\u2014\u2026"()\u201c\u201d',
    17: "\u0303\u02a3\u02a5\u02a6\u02a8\u1d5d\uab67AI",
    31: "O Q ST  W Y\u1d4aabcdef hijklmnopqrstuvwxyz\u0251\u0250\u0252\u00e6",
    75: "\u03b2\u0254\u0255\u00e7 \u0256\u00f0\u02a4\u0259 \u025a\u025b\u025c  \u025f \u0261",
    99: "\u0265 \u0268\u026a\u029d",
    110: "\u026f\u0270\u014b\u0273\u0272\u0274\u00f8 \u0278\u03b8\u0153  \u0279 \u027e\u027b",
    128: "\u0281\u027d\u0282\u0283\u0288\u02a7 \u028a\u028b \u028c\u0263\u0264 \u03c7\u028e",
    147: "\u0292\u0294",
    156: "\u02c8\u02cc\u02d0   \u02b0 \u02b2",
    169: "\u2193 \u2192\u2197\u2198",
    177: "\u1d7b",
}

VOCABULARY: dict[str, int] = {" ": 16}
for _first, _symbols in _RUNS.items():
    VOCABULARY.update({s: _first + i for i, s in enumerate(_symbols) if s != " "})
