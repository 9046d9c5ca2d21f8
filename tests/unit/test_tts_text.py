"""What gp.tts makes of text: configuration, phonemes, sentences."""

from __future__ import annotations

import json
import stat
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import pygpukit as gp
from pygpukit.core.errors import MissingPackageError, OperationError
from pygpukit.tts.kokoro.phonemes import phonemizer
from pygpukit.tts.kokoro.sentences import pack

TINY = Path(__file__).resolve().parents[1] / "data" / "tiny-kokoro"


# --- text ---
def test_config() -> None:
    config = gp.tts.KokoroConfig()
    assert (config.sample_rate, config.hop_length, config.plbert_head_dim) == (24000, 300, 64)
    assert config.max_phonemes == 510
    assert len(config.vocab) == 114
    assert max(config.vocab.values()) == 177
    assert gp.tts.KokoroConfig.from_dict(config.to_dict()) == config
    tiny = gp.tts.KokoroConfig.from_json(TINY / "config.json")
    assert (tiny.hidden_dim, tiny.plbert_num_hidden_groups, tiny.hop_length) == (16, 2, 60)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "^KokoroConfig.from_dict: values is .*, expected an object"),
        ({"plbert": 3}, "plbert is 3"),
        ({"vocab": {"a": -1}}, "vocab has -1 for 'a'"),
        ({"vocab": []}, "vocab is"),
        ({"style_dim": "x"}, "style_dim is str 'x', expected int"),
        ({"style_dim": 0}, "style_dim is 0, expected"),
        ({"n_mels": True}, "n_mels is True"),
        ({"plbert": {"hidden_size": 1.5}}, "plbert_hidden_size is float"),
        ({"istftnet": {"upsample_rates": 3}}, "upsample_rates is 3, expected an array"),
        ({"istftnet": {"upsample_rates": [2, "a"]}}, "upsample_rates is str 'a'"),
        ({"istftnet": {"resblock_dilation_sizes": [1]}}, "resblock_dilation_sizes is 1, expected"),
    ],
)
def test_configs_that_are_refused(values: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(gp.InvalidArgument, match=message) as caught:
        gp.tts.KokoroConfig.from_dict(values)
    assert str(caught.value).startswith("KokoroConfig")
    if values:
        (tmp_path / "config.json").write_text(json.dumps(values))
        with pytest.raises(type(caught.value), match=rf"^config\.json: {message}"):
            gp.tts.KokoroConfig.from_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config\.json"):
        gp.tts.KokoroConfig.from_json(tmp_path / "config.json")
    (tmp_path / "config.json").write_bytes(b'{"n_token": "\xff\xfe"}')
    with pytest.raises(gp.InvalidArgument, match=r"config\.json: is not JSON"):
        gp.tts.KokoroConfig.from_json(tmp_path / "config.json")
    with pytest.raises(gp.InvalidArgument, match=r"^KokoroConfig.from_json: path is"):
        gp.tts.KokoroConfig.from_json("a\0b")


def test_tokenizer() -> None:
    tokenizer = gp.tts.KokoroTokenizer({"a": 1, "ab": 2, "abc": 3, " ": 4}, use_misaki=False)
    out = tokenizer.encode("abc ab xa")
    assert out == gp.tts.TokenizerOutput([3, 4, 2, 4, 1], "abc ab xa", "abc ab xa")
    assert tokenizer.decode([0, *out.tokens, 99]) == "abc ab a"
    assert tokenizer.vocab_size == 4
    assert "4 symbols" in repr(tokenizer)
    default = gp.tts.KokoroTokenizer(use_misaki=False)
    hello = "h\u0259l\u02c8O w\u02c8\u025c\u0279ld!"
    assert default.decode(default.encode(hello).tokens) == hello
    assert default.encode("h\u0259").tokens == [50, 83]
    with pytest.raises(TypeError, match="text is 3"):
        tokenizer.encode(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="NUL"):
        tokenizer.encode("a\0")
    with pytest.raises(ValueError, match="KokoroTokenizer: vocab has 'b' for 'a'"):
        gp.tts.KokoroTokenizer({"a": "b"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="KokoroTokenizer: vocab has the symbol 3"):
        gp.tts.KokoroTokenizer({3: 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="lang is 'xx', expected one of 'a'"):
        gp.tts.KokoroTokenizer(lang="xx")
    assert gp.tts.KokoroTokenizer(lang="en-gb").lang == "b"


def without_phonemizers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "misaki", None)
    monkeypatch.setenv("PATH", "")


def test_text_without_a_phonemizer(monkeypatch: pytest.MonkeyPatch) -> None:
    without_phonemizers(monkeypatch)
    tokenizer = gp.tts.KokoroTokenizer()
    with pytest.raises(MissingPackageError, match=r"pip install 'pygpukit\[tts\]'"):
        tokenizer.phonemize("hello")
    with pytest.warns(UserWarning, match="taken as phonemes"):
        assert tokenizer.encode("ab").tokens == [43, 44]


def test_text_through_misaki(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in with misaki's interface."""
    made: list[dict[str, Any]] = []

    class G2P:
        def __init__(self, **options: Any) -> None:
            made.append(options)

        def __call__(self, text: str) -> tuple[str, None]:
            return text.upper(), None

    def refuse(**_: Any) -> None:
        raise RuntimeError("no espeak")

    package = types.ModuleType("misaki")
    for name, value in {
        "en": types.SimpleNamespace(G2P=G2P),
        "ja": types.SimpleNamespace(JAG2P=G2P),
        "zh": types.SimpleNamespace(ZHG2P=G2P),
        "espeak": types.SimpleNamespace(EspeakG2P=G2P, EspeakFallback=refuse),
    }.items():
        setattr(package, name, value)
    monkeypatch.setitem(sys.modules, "misaki", package)
    assert gp.tts.KokoroTokenizer(lang="b").encode("aio").phonemes == "AIO"
    assert made == [{"trf": False, "british": True, "fallback": None, "unk": ""}]
    for lang in "jzf":
        assert phonemizer(lang)("x") == "X"
    assert made[-1] == {"language": "fr-fr"}


def test_text_through_espeak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for the program, which says what espeak-ng would."""
    monkeypatch.setitem(sys.modules, "misaki", None)
    program = tmp_path / "espeak-ng"
    program.write_text(
        f"#!{sys.executable}\nimport sys\ntext = sys.stdin.read()\n"
        "if 'fail' in text: sys.exit('no such voice')\n"
        "assert sys.argv[1:] == ['-q', '--ipa=3', '-v', 'en-us', '--stdin'], sys.argv\n"
        "sys.stdout.buffer.write('h\\u0259l\\u02c8o\\u028a t\\u0361\\u0283\\u02d0\\n'.encode())\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    tokenizer = gp.tts.KokoroTokenizer()
    assert tokenizer.phonemize("hello ch!") == "h\u0259l\u02c8O \u02a7!"
    with pytest.raises(OperationError, match="no such voice"):
        tokenizer.phonemize("fail")


def espeak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """A stand-in whose phonemes for a text are those of the Python expression."""
    monkeypatch.setitem(sys.modules, "misaki", None)
    program = tmp_path / "espeak-ng"
    program.write_text(
        f"#!{sys.executable}\nimport sys\ntext = sys.stdin.read()\n"
        f"sys.stdout.buffer.write(({says}).encode())\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_punctuation_survives_espeak(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    says = "''.join(c for c in text.lower() if c not in ',.;:!?()')"
    espeak(tmp_path, monkeypatch, says)
    speak = phonemizer("f")
    assert speak("Un, deux: trois! Quatre") == "un, deux: trois! quatre"
    assert speak("a 3.5 b; c") == "a 35 b; c"  # inside a number: espeak-ng's business
    assert speak("dr. a came at 3 p.m. today. so.") == "dr a came at 3 pm today. so."
    assert speak("Mr.") == "mr."
    assert speak("a \u2014 b\u2026") == "a\u2014 b\u2026"
    assert speak("...") == "..."
    assert speak('"Please stop." Then (do!) on') == '"please stop. then do! on'
    assert speak("\u201cwait\u2026\u201d he said") == "\u201cwait\u2026 he said"
    assert speak('(dr. a said "stop.")') == 'dr a said "stop.'
    assert speak("\u4f60\u597d\uff0c\u518d\u89c1\u3002\u300c\u597d\uff01\u300d\u597d") == (
        "\u4f60\u597d, \u518d\u89c1. \u300c\u597d! \u597d"
    )
    assert speak("") == ""


def test_english_rules_are_for_english(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """r and x are sounds of their own elsewhere; what is tied together is one symbol."""
    espeak(tmp_path, monkeypatch, "'rx e\\u026a t\\u0361\\u0283 t\\u0361s g'")
    assert phonemizer("e")("x") == "rx e\u026a \u02a7 \u02a6 \u0261"
    assert phonemizer("a")("x") == "\u0279k A \u02a7 ts \u0261"


def test_sentences() -> None:
    split = gp.tts.split_sentences
    assert split("One. Two!  Three?\n\nFour \u2026 five") == [
        *("One.", "Two!", "Three?", "Four \u2026", "five"),
    ]
    assert split('He said "stop." Then 3.5 left.') == ['He said "stop."', "Then 3.5 left."]
    assert split(" \n ") == []
    assert split("Dr. Smith came at 3.5 p.m. today. He left.") == [
        *("Dr. Smith came at 3.5 p.m. today.", "He left."),
    ]
    assert split("\u4f60\u597d\u3002\u518d\u89c1\u3002") == [
        *("\u4f60\u597d\u3002", "\u518d\u89c1\u3002"),
    ]
    text = "Dr. A. B. came. " * 20000  # in linear time
    assert len(split(text)) == 20000


def test_phonemes_are_cut_where_it_hurts_least() -> None:
    cut = gp.tts.split_phonemes
    assert cut("abc", 5) == ["abc"]
    assert cut("aa. bb, cc dd", 10) == ["aa.", "bb, cc dd"]
    assert cut("aa bb, cc dd", 10) == ["aa bb,", "cc dd"]
    assert cut("aa bb cc dd", 10) == ["aa bb cc", "dd"]
    assert cut("a" * 25, 10) == ["a" * 10, "a" * 10, "a" * 5]
    assert cut('aaa." bbbbb', 8) == ['aaa."', "bbbbb"]
    text = "lorem, ipsum dolor; sit amet. " * 60
    parts = cut(text, 510)
    assert all(0 < len(part) <= 510 for part in parts)
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    assert pack(["aa", "bb", "cccccc"], 6) == [[0, 1], [2]]
