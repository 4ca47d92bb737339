"""What is a secret: by its value, by its key, in a URL; and what is none."""

from __future__ import annotations

import json
import random
import re
import time
from pathlib import Path
from string import ascii_letters
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduld.config.interpolate import Filled
from scheduld.config.settings import Config, LogSettings
from scheduld.model import TaskType
from scheduld.observe import masking
from scheduld.observe.masking import HIDDEN, Masker
from scheduld.observe.secrets import masker_for

SECRET = "S3cr@t/\"w'ord"


@pytest.mark.parametrize(
    "key",
    [
        *("password", "PASSWORD", "smtp_password", "dbPassword", "passwd", "passphrase"),
        *("secret", "client_secret", "clientSecret", "webhook-secret", "token", "access_token"),
        *("accessToken", "x-auth-token", "api_key", "API-KEY", "apiKey", "X-Api-Key", "cookie"),
        *("Set-Cookie", "Authorization", "proxy-authorization", "dsn", "SENTRY_DSN", "sentryDsn"),
        *("credentials", "private_key", "aws_secret_access_key", "pwd", "iban", "IBAN", "a.iban"),
    ],
)
def test_keys_whose_values_are_hidden(key: str) -> None:
    """Keys that tell it, in any spelling, and the configured ones."""
    masker = Masker(["Iban"])
    assert masker.hides(key)
    assert masker.value({"a": [{key: {"deep": 1}}]}) == {"a": [{key: HIDDEN}]}
    assert masker.text(f"x {key}=value, y") == f"x {key}={HIDDEN}, y"
    assert masker.text(repr({key: "it's v"})) == repr({key: "it's v"}).replace("it's v", HIDDEN)


@pytest.mark.parametrize(
    "key", ["tokenizer", "message", "to", "keys", "pass", "author", "dsnx", "key", ""]
)
def test_keys_whose_values_are_shown(key: str) -> None:
    """What only looks alike is told."""
    assert not Masker(["iban"]).hides(key)


@pytest.mark.parametrize("value", [None, True, False, ""])
def test_flags_are_no_secrets(value: object) -> None:
    """`password=None` says what went wrong; so does `has_password: true`."""
    assert not Masker().hides("password", value)
    assert not Masker().hides("max_tokens", 100)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://u:S3cr%40t@h:6379/0 is away", "redis://u:***@h:6379/0 is away"),
        ("redis://:p@ss@h/0", "redis://:***@h/0"),
        ("(smtp://u:p'w\"x@h)", "(smtp://u:***@h)"),
        ("http://h:8080/a", "http://h:8080/a"),
        ("http://h/a?token=abc&b=1", "http://h/a?token=***&b=1"),
        ("Authorization: Bearer abc.def\nHost: h", "Authorization: ***\nHost: h"),
        ("Cookie: a=b; c=d", "Cookie: ***"),
        ("sent Bearer abcdef0123456789.xyz to h", "sent Bearer *** to h"),
        ('{"password": "a\\"b", "n": 1}', '{"password": "***", "n": 1}'),
        ('{\\"password\\": \\"ab\\"}', '{\\"password\\": \\"***\\"}'),
        ("{'secret': {'a': ['b']}, 'n': 1}", "{'secret': ***, 'n': 1}"),
        ("{'password': b'bytes'}", "{'password': b'***'}"),
        ("authorization=Basic dTpw next", "authorization=*** next"),
        ("password=None token='' x", "password=None token='' x"),
        ("unexpected token: } at 3", "unexpected token: } at 3"),
        ("password=unclosed", "password=***"),
        ("password='unclosed", "password='***"),
        ("a = b: c", "a = b: c"),
    ],
)
def test_texts(text: str, shown: str) -> None:
    """Secrets in free text: URLs, headers, JSON, reprs; prose stays as it is."""
    assert Masker().text(text) == shown


@pytest.mark.parametrize(
    "form", [SECRET, quote(SECRET, safe=""), json.dumps(SECRET)[1:-1], repr(SECRET)[1:-1]]
)
def test_a_known_secret_is_found_in_all_its_forms(form: str) -> None:
    """As it is, percent-encoded, and as JSON and Python write it."""
    assert Masker(secrets=[SECRET]).values(f"<{form}>") == f"<{HIDDEN}>"


def test_short_secrets_are_found_as_words_only() -> None:
    """A secret of a few characters must not blot out parts of other words; one of 3 is none."""
    masker = Masker(secrets=["abcd", "xyz"])
    assert masker.values("abcd abcde xabcd abcd. xyz") == f"{HIDDEN} abcde xabcd {HIDDEN}. xyz"


def test_lines_of_a_long_secret_are_secrets_too() -> None:
    """A traceback may show one line of a key file."""
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nAAAABBBBCCCCDDDD\n-----END KEY-----"
    assert Masker(secrets=[key]).values("x MIIEvQIBADANBgkqhkiG y") == f"x {HIDDEN} y"


@given(
    before=st.text(max_size=40), secret=st.text(min_size=8, max_size=40), after=st.text(max_size=40)
)
def test_a_known_secret_is_never_left(before: str, secret: str, after: str) -> None:
    """Whatever stands around a secret, it is gone, unless it is part of the mark itself."""
    shown = Masker(secrets=[secret]).values(f"{before}{secret}{after}")
    assert secret not in shown or secret in f"{before}{HIDDEN}{after}"


@given(
    secrets=st.lists(st.text("ab\u00e9/", min_size=4, max_size=12), min_size=1, max_size=40),
    text=st.text("ab\u00e9/ ", max_size=60),
)
@settings(deadline=None)  # it compiles patterns, on a machine that may be busy
def test_many_alike_secrets_are_found(secrets: list[str], text: str) -> None:
    """Of secrets that begin alike, or contain each other, the longest at each place is hidden."""
    forms = sorted({form for secret in secrets for form in masking._forms(secret)}, key=len)[::-1]
    each = [
        rf"(?<!\w){re.escape(form)}(?!\w)" if len(form) < 8 else re.escape(form) for form in forms
    ]
    assert Masker(secrets=secrets).values(text) == re.sub("|".join(each), HIDDEN, text)


@pytest.mark.parametrize("size", [6, 64])
def test_a_thousand_secrets_cost_little(size: int) -> None:
    """A bundle of certificates that was filled in, or many short words: errors are masked soon."""
    drawn = random.Random(size)
    secrets = ["".join(drawn.choices(ascii_letters + "+/", k=size)) for _ in range(1_000)]
    masker = Masker(secrets=["\n".join(secrets), *secrets])
    begun = time.process_time()
    shown = masker.values("lorem ipsum dolor " * 900 + secrets[500])
    assert time.process_time() - begun < 0.1
    assert shown.endswith(f" dolor {HIDDEN}")


@pytest.mark.parametrize(
    "part",
    ["a://", "a://x:", "x:", "password=", "'", "{", "\\", 'password="\\', "a.b-", "=", "Bearer "],
)
def test_no_text_takes_long(part: str) -> None:
    """Text of a megabyte that was made to be slow costs well below a second."""
    text = part * (100_000 // len(part))
    begun = time.process_time()
    Masker(["iban"], [SECRET]).text(text)
    assert time.process_time() - begun < 1


def config(**options: Any) -> Config:
    """A config whose redis password, filled-in values and options are secrets."""
    return Config(
        state_dir=Path("/x"),
        redis_url="redis://user:R3d%40is@redis-host:6379/0",
        log=LogSettings(mask=("iban",)),
        types=MappingProxyType({"a": TaskType(name="a", handler="log", options=options)}),
        filled=(
            Filled(("scheduld", "redis_url"), "whole", frozenset({"redis-host"})),
            Filled(("scheduld", "timezone"), "Europe/Madrid", frozenset({"Europe/Madrid"})),
            Filled(("types", "a", "handler"), "mymodule", frozenset({"mymodule"})),
            Filled(("types", "a", "options", "k"), "key-12345", frozenset({"12345-part"})),
            Filled(
                ("types", "a", "options", "smtp_url"),
                "smtp://me:Filled%2Fin@smtp-host",
                frozenset({"Filled%2Fin", "smtp-host"}),
            ),
            Filled(("types", "a", "options", "hook"), "https://h/T0/B0/xyz", frozenset({"B0xyz"})),
        ),
    )


@pytest.mark.parametrize(
    "secret",
    [
        *("R3d@is", "R3d%40is", "key-12345", "12345-part", "Filled/in", "Filled%2Fin"),
        *("https://h/T0/B0/xyz", "literal-pw", "url-pw", "in-a-list"),
    ],
)
def test_secrets_of_a_config(secret: str) -> None:
    """Passwords of URLs, what was filled into options, and options under telling keys."""
    masker = masker_for(
        config(
            password="literal-pw",
            url="smtp://me:url-pw@h",
            env={"API_TOKENS": ["in-a-list"]},
        )
    )
    assert secret not in masker.values(f"got {secret}!")


@pytest.mark.parametrize(
    "open_value", ["redis-host", "Europe/Madrid", "mymodule", "smtp-host", "Scheduld"]
)
def test_what_is_filled_in_elsewhere_stays_readable(open_value: str) -> None:
    """Hosts and zones from variables are no secrets: the log would be of no use."""
    assert masker_for(config(sender="Scheduld")).values(open_value) == open_value
