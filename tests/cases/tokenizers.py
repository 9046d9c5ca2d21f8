"""Small tokenizers of every kind that models have, trained on a few sentences."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from pygpukit.llm import Tokenizer

MODEL = Path(__file__).resolve().parents[1] / "data" / "tiny-qwen3-1m"

SENTENCES = [
    "The quick brown fox jumps over the lazy dog, again and again.",
    "A token is a piece of text; don't let it break the text.",
    "\u4e2d\u6587\u5b57\u7b26\u5f88\u591a\u3002 \u65e5\u672c\u8a9e\u3082\u3042\u308b\u3002",
    "Smile \U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 and wave \U0001f44b\U0001f3fd!",
    "caf\u00e9 na\u00efve \u00fcber stra\u00dfe   three spaces\n\ttabs\r\n",
]
SPECIAL = ["<unk>", "<s>", "</s>"]


def _byte_level() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        SENTENCES * 3,
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
        ),
    )
    return made


def _unigram() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.Unigram())
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.train_from_iterator(
        SENTENCES * 3,
        trainers.UnigramTrainer(
            vocab_size=150, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
        ),
    )
    return made


def _byte_fallback() -> tokenizers.Tokenizer:
    """As LLaMA's: SentencePiece BPE with 256 tokens for bytes that have no other."""
    bytes_first = [f"<0x{byte:02X}>" for byte in range(256)]
    letters = sorted({c for c in "\u2581" + SENTENCES[0] + SENTENCES[1] if c != " "})
    words = ["th", "\u2581th", "\u2581the", "\u2581a", "ok", "\u2581tok"]
    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *bytes_first, *letters, *words])}
    merges = [("t", "h"), ("\u2581", "th"), ("\u2581th", "e"), ("\u2581", "a"), ("o", "k")]
    merges += [("\u2581", "t"), ("\u2581t", "ok")]
    vocabulary["\u2581t"] = len(vocabulary)
    made = tokenizers.Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.add_special_tokens(SPECIAL)
    return made


def _word_piece() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordPiece(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.train_from_iterator(
        SENTENCES * 3,
        trainers.WordPieceTrainer(vocab_size=200, special_tokens=SPECIAL, show_progress=False),
    )
    return made


def _word_suffix() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.BPEDecoder()
    made.train_from_iterator(
        SENTENCES * 3,
        trainers.BpeTrainer(
            vocab_size=250,
            special_tokens=SPECIAL,
            end_of_word_suffix="</w>",
            show_progress=False,
        ),
    )
    return made


def _no_decoder() -> tokenizers.Tokenizer:
    made = tokenizers.Tokenizer(models.WordLevel({"<unk>": 0, "one": 1, "two": 2}, "<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


_KINDS: dict[str, Callable[[], tokenizers.Tokenizer]] = {
    "byte_level": _byte_level,
    "unigram": _unigram,
    "byte_fallback": _byte_fallback,
    "word_piece": _word_piece,
    "word_suffix": _word_suffix,
    "no_decoder": _no_decoder,
}
KINDS = ("model", *_KINDS)


@functools.cache
def tokenizer(kind: str) -> Tokenizer:
    """One of KINDS; "model" is that of the model in tests/data."""
    return Tokenizer(MODEL) if kind == "model" else Tokenizer.from_json(_KINDS[kind]().to_str())
