"""Text to phonemes: by the package misaki, or by the program espeak-ng."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

from pygpukit._native import safe_repr
from pygpukit.core.errors import InvalidValueError, MissingPackageError, OperationError
from pygpukit.tts.sentences import CLOSING, is_abbreviation

# Language codes of Kokoro, and espeak-ng's names of them.
LANGUAGES = {
    "a": "en-us",
    "b": "en-gb",
    "e": "es",
    "f": "fr-fr",
    "h": "hi",
    "i": "it",
    "j": "ja",
    "p": "pt-br",
    "z": "cmn",
}
# What espeak-ng writes, and how Kokoro writes it; in this order. Other languages than English have
# sounds of their own: only what espeak-ng ties together is one symbol there.
_TIE = "\u0361"
_ALWAYS = ((_TIE, ""), ("g", "\u0261"))
_TIED = (
    (f"d{_TIE}z", "\u02a3"),
    (f"d{_TIE}\u0292", "\u02a4"),
    (f"t{_TIE}s", "\u02a6"),
    (f"t{_TIE}\u0283", "\u02a7"),
    (f"e{_TIE}\u026a", "A"),
    (f"a{_TIE}\u026a", "I"),
    (f"a{_TIE}\u028a", "W"),
    (f"\u0254{_TIE}\u026a", "Y"),
    (f"o{_TIE}\u028a", "O"),
    (f"\u0259{_TIE}\u028a", "Q"),
)
_ENGLISH = (
    ("t\u0283", "\u02a7"),
    ("d\u0292", "\u02a4"),
    ("e\u026a", "A"),
    ("a\u026a", "I"),
    ("a\u028a", "W"),
    ("\u0254\u026a", "Y"),
    ("\u025a", "\u0259\u0279"),
    ("\u0329", ""),
    ("r", "\u0279"),
    ("x", "k"),
)
_AMERICAN = (
    ("o\u028a", "O"),
    ("\u025c\u02d0\u0279", "\u025c\u0279"),
    ("\u025c\u02d0", "\u025c\u0279"),
    ("\u02d0", ""),
)
_BRITISH = (("\u0259\u028a", "Q"), ("e\u0259", "\u025b\u02d0"))
# Full-width marks, which need no space behind them, and Kokoro's.
_FULL_WIDTH = str.maketrans("\uff1b\uff1a\uff0c\u3001\u3002\uff01\uff1f", ";:,,.!?")
_MARKS = re.compile(
    rf"(?P<mark>[;:,.!?\u2026]+)[{CLOSING}]*(?=\s|$)"
    rf"|(?P<wide>[{''.join(map(chr, _FULL_WIDTH))}]+)[{CLOSING}]*|(?P<dash>\s*\u2014)"
)
_TIMEOUT_S = 60


def check_language(lang: str) -> str:
    """The code of a language, given by its code or by espeak-ng's name."""
    names = {name: code for code, name in LANGUAGES.items()}
    code = names.get(lang, lang)
    if code not in LANGUAGES:
        known = ", ".join(f"'{code}' ({name})" for code, name in LANGUAGES.items())
        raise InvalidValueError(f"kokoro: lang is {safe_repr(lang)}, expected one of {known}")
    return code


def phonemizer(lang: str) -> Callable[[str], str]:
    """A function from text to phonemes. MissingPackageError where nothing is installed."""
    lang = check_language(lang)
    try:
        return _misaki(lang)
    except ImportError:
        program = shutil.which("espeak-ng")
        if program is None:
            raise MissingPackageError(
                "kokoro: text needs the package misaki: pip install 'pygpukit[tts]', or the "
                "program espeak-ng; phonemes need neither"
            ) from None
        return _Espeak(program, lang)


def _misaki(lang: str) -> Callable[[str], str]:
    if lang in "ab":
        from misaki import en

        g2p = en.G2P(trf=False, british=lang == "b", fallback=_misaki_fallback(lang), unk="")
    elif lang == "j":
        from misaki import ja

        g2p = ja.JAG2P()
    elif lang == "z":
        from misaki import zh

        g2p = zh.ZHG2P()
    else:
        from misaki import espeak

        g2p = espeak.EspeakG2P(language=LANGUAGES[lang])
    return lambda text: str(g2p(text)[0])


def _misaki_fallback(lang: str) -> Any:
    """For words that misaki's dictionary does not have; None without espeak."""
    try:
        from misaki import espeak

        return espeak.EspeakFallback(british=lang == "b")
    except (ImportError, RuntimeError, OSError):
        return None


class _Espeak:
    """The program espeak-ng."""

    def __init__(self, program: str, lang: str) -> None:
        self.program = program
        self.lang = lang

    def __call__(self, text: str) -> str:
        """Clause by clause: espeak-ng drops the punctuation, which is heard."""
        parts = []
        for clause, mark in _clauses(text):
            spoken = self._spoken(clause) if clause else ""
            parts.append(f"{spoken}{mark}")
        return " ".join(part for part in parts if part)

    def _spoken(self, text: str) -> str:
        command = [self.program, "-q", "--ipa=3", "-v", LANGUAGES[self.lang], "--stdin"]
        try:
            done = subprocess.run(
                command,
                input=text,
                capture_output=True,
                text=True,
                encoding="utf-8",
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise OperationError(f"kokoro: espeak-ng failed: {error}") from error
        if done.returncode != 0:
            raise OperationError(f"kokoro: espeak-ng failed: {done.stderr.strip()[:200]}")
        return self._as_kokoro(" ".join(done.stdout.split()).replace("_", ""))

    def _as_kokoro(self, phonemes: str) -> str:
        if self.lang in "ab":
            accent = _AMERICAN if self.lang == "a" else _BRITISH
            rules = (*_ALWAYS, *_ENGLISH, *accent)
        else:
            rules = (*_TIED, *_ALWAYS)
        for theirs, ours in rules:
            phonemes = phonemes.replace(theirs, ours)
        return phonemes


def _clauses(text: str) -> Iterator[tuple[str, str]]:
    """(words, the marks behind them). Marks inside numbers and abbreviations belong to words."""
    start = 0
    for match in _MARKS.finditer(text):
        mark = match[match.lastgroup or 0]
        words = text[start : match.start()]
        if not is_abbreviation(f"{words}{mark}") or not text[match.end() :].strip():
            yield words.strip(), mark.strip().translate(_FULL_WIDTH)
            start = match.end()
    if rest := text[start:].strip():
        yield rest, ""
