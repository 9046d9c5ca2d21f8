"""Chat templates: what they may use, and that hostile ones fail."""

from __future__ import annotations

import datetime
import threading
import time

import pytest

from pygpukit.core.errors import InvalidTypeError, InvalidValueError
from pygpukit.llm import ChatTemplate, ChatTemplateError

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "caf\u00e9 <b>"}]
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"x": "\u4e2d"}}}]

# Source, variables, text.
RENDERED = [
    ("{% for m in messages %}{{ m['role'] }}:{{ m.content }};{% endfor %}", {},
     "system:Be brief.;user:caf\u00e9 <b>;"),
    ("{{ add_generation_prompt }}", {}, "True"),
    ("{{ add_generation_prompt }}", {"add_generation_prompt": False}, "False"),
    ("{{ bos_token }}|{{ nothing }}", {"bos_token": "<s>"}, "<s>|"),
    ("  {% if true %}\n  x\n  {% endif %}\n", {}, "  x\n"),
    ("{{ tools | tojson }}", {"tools": TOOLS},
     '[{"type": "function", "function": {"name": "add", "parameters": {"x": "\u4e2d"}}}]'),
    ("{{ {'b': 1, 'a': '<'} | tojson(indent=1, sort_keys=true) }}", {},
     '{\n "a": "<",\n "b": 1\n}'),
    ("{{ ['\u4e2d'] | tojson(ensure_ascii=true, separators=(',', ':')) }}", {}, '["\\u4e2d"]'),
    ("{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", {},
     "02345678"),
    ("{% for i in range(9) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", {}, "012"),
    ("{% for i in range(6) if i % 2 %}{{ loop.index }}{{ i }}{{ loop.last }} {% endfor %}", {},
     "11False 23False 35True "),
    ("{% generation %}{{ messages[0].content }}{% set a = 1 %}{% endgeneration %}{{ a }}", {},
     "Be brief."),
    ("{% macro twice(x) %}{{ x ~ x }}{% endmacro %}{{ twice('ab') }}{{ twice(1) }}", {}, "abab11"),
    ("{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}x{% endcall %}", {}, "[x]"),
    ("{% set n = namespace(i=0) %}{% for m in (1, 2) %}{% set n.i = m %}{% endfor %}{{ n.i }}",
     {}, "2"),
    ("{% set a %}x{{ 1 + 1 }}{% endset %}{{ a * 3 }}", {}, "x2x2x2"),
    ("{{ 'a%sb' % 1 }}{{ '{} {x}'.format(1, x=2) }}{{ '%05d' | format(7) }}", {}, "a1b1 200007"),
    ("{{ 2 ** 10 }} {{ [1] + [2] }} {{ 7 // 2 }} {{ -3 * 2 }}", {}, "1024 [1, 2] 3 -6"),
    ("{{ messages[::-1][0].content.split(' ')[-1].upper() }}", {}, "<B>"),
    ("{{ messages | map(attribute='role') | join('+') }}", {}, "system+user"),
    ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", {}, "1"),
    ("{{ (messages | last).content | trim | replace('<b>', '') | length }}", {}, "5"),
    ("{{ 100000000 | default(1) }} {{ none is none }} {{ x is defined }}", {},
     "100000000 True False"),
    ("{%- for x in [[1, [2]], 3] recursive %}{{ loop(x) if x is iterable else x }}{% endfor %}", {},
     "123"),
    ("{{ messages[1].content.strip() }}", {"messages": [
        *CHAT[:1], {"role": "user", "content": " {1234567} %1234567d "}]},
     "{1234567} %1234567d"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "variables", "text"), RENDERED)
def test_rendered(source: str, variables: dict[str, object], text: str) -> None:
    assert ChatTemplate(source).render(**{"messages": CHAT, **variables}) == text  # type: ignore[arg-type]


def test_the_clock() -> None:
    text = ChatTemplate("{{ strftime_now('%Y-%m') }}").render(CHAT)
    assert abs(datetime.datetime.now() - datetime.datetime.strptime(text, "%Y-%m")).days < 32


# Source, part of the error.
HOSTILE = [
    ("{{ ''.__class__.__mro__ }}", "SecurityError.*__class__"),
    ("{{ messages.__class__ }}", "SecurityError"),
    ("{{ ''['__class__'] }}", "SecurityError"),
    ("{{ ''|attr('__class__') }}", "SecurityError"),
    ("{{ '{0.__class__}'.format(1) }}", "SecurityError"),
    ("{{ raise_exception.__globals__ }}", "SecurityError"),
    ("{{ strftime_now.__globals__ }}", "SecurityError"),
    ("{{ self.__init__ }}", "SecurityError"),
    ("{{ cycler.__init__.__globals__.os.popen('id') }}", "SecurityError"),
    ("{% set _ = messages.append(1) %}", "SecurityError"),
    ("{% set _ = messages[0].update(role='x') %}", "SecurityError"),
    ("{% set messages[0].role = 'x' %}", "TemplateSyntaxError"),
    ("{% include '/etc/passwd' %}", "no loader"),
    ("{% import 'os' as os %}", "no loader"),
    ("{% extends 'x' %}", "no loader"),
    ("{{ lipsum() }}", "'lipsum' is undefined"),
    ("{{ range(999999999) }}", "OverflowError"),
    ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "more work"),
    ("{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}",
     "more work"),
    ("{% for a in range(99999) %}{% set _ = range(99999)|list %}{% endfor %}", "more work"),
    ("{% for a in range(99999) %}{% set _ = range(99999)|sum %}{% endfor %}", "more work"),
    ("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
     "more work"),
    ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
    ("{{ 'x' * 10000000000 }}", "more work"),
    ("{{ 10000000000 * [1] }}", "more work"),
    ("{{ 10 ** 10000000000 }}", "more work"),
    ("{% set a = 'x' %}" + "{% set a = a + a %}" * 40, "more work"),
    ("{% set a = 'x' %}" + "{% set a = a ~ a %}" * 40, "more work"),
    ("{% set a = 'x' %}" + "{% set a %}{{ a }}{{ a }}{% endset %}" * 40, "more work"),
    ("{% set a = 'x' %}" + "{% set a = '%s%s' % (a, a) %}" * 40, "more work"),
    ("{% set a = 'x' %}" + "{% set a = '{0}{0}'.format(a) %}" * 40, "more work"),
    ("{% set a = 'x' %}" + "{% set a = a|replace('x', 'xx') %}" * 40, "more work"),
    ("{% set a = 'x' %}" + "{% set a = [a, a]|join %}" * 40, "more work"),
    ("{% for a in range(99999) %}" + "x" * 10000 + "{% endfor %}", "more work"),
    ("{{ 'x'|center(1000000000) }}", "pads text"),
    ("{{ 'x'.ljust(1000000000) }}", "pads text"),
    ("{{ '%1000000000d' % 1 }}", "pads text"),
    ("{{ '%*d' % (1000000000, 1) }}", "pads text"),
    ("{{ '%1000000000d' | format(1) }}", "pads text"),
    ("{{ '{:>1000000000}'.format(1) }}", "pads text"),
    ("{{ '{:>{w}}'.format(1, w=1000000000) }}", "pads text"),
    ("{{ messages|tojson(indent=1000000000) }}", "pads text"),
    ("{{ 1 / 0 }}", "ZeroDivisionError"),
    ("{{ nothing.at.all }}", "UndefinedError: 'nothing' is undefined"),
    ("{% if %}", "line 1: TemplateSyntaxError"),
    ("\n\n{% for %}", "line 3: TemplateSyntaxError"),
    ("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "RecursionError"),
    ("x" * (2**20 + 1), "has 1048577 characters"),
    ("{{ raise_exception('roles must alternate') }}", "TemplateError: roles must alternate"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "text"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile(source: str, text: str) -> None:
    chat = [dict(message) for message in CHAT]
    start = time.monotonic()
    with pytest.raises(ChatTemplateError, match=text):
        ChatTemplate(source).render(chat)
    assert time.monotonic() - start < 60
    assert chat == CHAT


def test_work_is_counted_for_each_rendering_and_thread() -> None:
    busy = ChatTemplate("{% for a in range(99999) %}{% endfor %}ok")
    got: list[str] = []
    threads = [
        threading.Thread(target=lambda: got.extend(busy.render(CHAT) for _ in range(5)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == ["ok"] * 10


def test_long_chats_are_no_hostile_ones() -> None:
    text = "word " * 40_000
    chat = [{"role": "user", "content": text} for _ in range(50)]
    loop = "{% for m in messages %}{{ '<' + m.role + '>' + m.content | trim ~ '\n' }}{% endfor %}"
    assert len(ChatTemplate(loop).render(chat)) > 9_000_000


@pytest.mark.parametrize(
    ("messages", "error", "text"),
    [
        ("hello", InvalidTypeError, "messages is of type str, expected a list of dicts"),
        ({"role": "user"}, InvalidTypeError, "messages is of type dict"),
        (None, InvalidTypeError, "messages is of type NoneType"),
        (["hello"], InvalidTypeError, r"messages\[0\] is of type str, expected a dict"),
        ([{"role": "a"}, {"content": "b"}], InvalidValueError, r"messages\[1\] has no 'role'"),
        ([{"role": 1}], InvalidValueError, r"messages\[0\] has no 'role' that is a str"),
    ],
)
def test_messages_that_are_refused(messages: list[dict[str, str]], error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        ChatTemplate("x").render(messages)


def test_source_must_be_text() -> None:
    with pytest.raises(InvalidTypeError, match="source is of type int, expected str"):
        ChatTemplate(3)  # type: ignore[arg-type]
