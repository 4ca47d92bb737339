"""What no log line and no error may show: secrets are masked here, and nowhere else.

A secret is known by its value (those of the config), by the key it stands under (`password`,
`api_key`, the keys of `[log] mask`), or as the password of a URL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, quote_plus

from scheduld.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

HIDDEN = "***"
SHORTEST = 4
"""Characters of a secret; shorter ones would be found in every other word."""
_SHORT = 8
_LONGEST_KEY = 64
_DEEPEST = 8
_DEEPEST_BRANCH = 4
_FEW = 4
# Anywhere in a key, whatever is written between its words ...
_TELLING = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "privatekey",
    "accesskey",
)
# ... and as one of its words: "tokenizer" is no secret, and max_tokens = 100 is none.
_WORDS = frozenset({"token", "tokens", "dsn", "pwd"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NO_LETTER = re.compile(r"[\W_]")
_PLAIN = frozenset({"", "None", "null", "True", "true", "False", "false", HIDDEN})
# Up to the last "@" before a slash: an "@" in a password should be escaped, and often is not.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/@:]*):[^\s/]*@")
_BEARER = re.compile(r"\b(Bearer)\s+[A-Za-z0-9._~+/=-]{16,}", re.IGNORECASE)
# Both start where a word starts and look at a bounded part: linear time for any text.
_ASSIGNED = re.compile(
    rf"(?<![\w.-])(?P<key>[\w.-]{{1,{_LONGEST_KEY}}})(?P<quote>\\*[\"']|)\s{{0,3}}"
    r"(?P<sign>[=:])[ \t]{0,3}"
)
_OPENING = re.compile(r"[bBuU]?(\\*[\"'])")
_BARE = re.compile(r"(?:(?:bearer|basic|token|digest)\s+)?[^\s,;&\"'\)\]\}\\]*", re.IGNORECASE)
_INSIDE = {sign: re.compile(rf"(?:[^{sign}\\]|\\.)*", re.DOTALL) for sign in "\"'"}
_LINE_END = re.compile(r"[\r\n\"'\\]")
_HEADERS = ("authorization", "cookie", "apikey")


class Masker:
    """Knows the secrets of one process. `keys`: those of `[log] mask`; `secrets`: values."""

    def __init__(self, keys: Iterable[str] = (), secrets: Iterable[str] = ()) -> None:
        self._keys = frozenset(key.lower() for key in keys)
        forms = {form for secret in secrets for form in _forms(secret)}
        self.longest = max(map(len, forms), default=0)
        """Characters of the longest form of a secret."""
        self._secrets = _any_of(forms)

    def hides(self, key: object, value: object = HIDDEN) -> bool:
        """Whether the value under a key is a secret; flags and None are not."""
        if isinstance(key, bytes):
            key = key.decode("latin-1")
        if not isinstance(key, str) or value is None or isinstance(value, bool) or value == "":
            return False
        lowered = key.lower()
        if lowered in self._keys or lowered.rpartition(".")[2] in self._keys:
            return True
        letters = _NO_LETTER.sub("", lowered)
        if any(word in letters for word in _TELLING):
            return True
        words = {word.lower() for word in _WORD.findall(key)}
        return not isinstance(value, int | float) and not words.isdisjoint(_WORDS)

    def values(self, text: str) -> str:
        """Mask the known secrets and the passwords of URLs, and leave all else as it is."""
        if self._secrets is not None:
            text = self._secrets.sub(HIDDEN, text)
        return _URL.sub(rf"\1:{HIDDEN}@", text) if "://" in text else text

    def text(self, text: str) -> str:
        """Mask what `values` masks, and what stands behind a telling key, as in `token=...`."""
        return _BEARER.sub(rf"\1 {HIDDEN}", self._assigned(self.values(text)))

    def value(self, value: Any, depth: int = _DEEPEST) -> Any:
        """Return a value with what stands under telling keys masked, at any depth of it."""
        if isinstance(value, Mapping):
            if not depth:
                return HIDDEN
            return {
                key: HIDDEN if self.hides(key, item) else self.value(item, depth - 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            if not depth:
                return HIDDEN
            items = [self.value(self.pair(item), depth - 1) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return value

    def pair(self, item: Any) -> Any:
        """Mask the value of an item of a list that is a key and its value, as headers are."""
        if isinstance(item, tuple) and len(item) == 2 and self.hides(*item):
            return (item[0], HIDDEN)
        return item

    def _assigned(self, text: str) -> str:
        parts: list[str] = []
        done = 0
        for match in _ASSIGNED.finditer(text):
            begin = match.end()
            if match.start() < done or not self._is_telling(match):
                continue
            begin, end = _value(text, begin, is_header=match["sign"] == ":" and not match["quote"])
            if text[begin:end] not in _PLAIN:
                parts += (text[done:begin], HIDDEN)
                done = end
        return "".join([*parts, text[done:]]) if parts else text

    def _is_telling(self, match: re.Match[str]) -> bool:
        key = match["key"]
        if match["sign"] == ":" and not match["quote"]:
            # Prose: "unexpected token: }" hides nothing, "Authorization: Bearer x" does.
            letters = _NO_LETTER.sub("", key.lower())
            return letters.endswith(_HEADERS)
        return self.hides(key)


def _value(text: str, begin: int, *, is_header: bool) -> tuple[int, int]:
    """Find the value that begins at `begin`: where it starts behind its quote, and ends."""
    opening = _OPENING.match(text, begin)
    if opening:
        return opening.end(), _closing(text, opening.end(), opening[1])
    if text[begin : begin + 1] in tuple("{[("):
        return begin, _bracketed(text, begin)
    if is_header:
        end = _LINE_END.search(text, begin)
        return begin, end.start() if end else len(text)
    bare = _BARE.match(text, begin)
    return begin, bare.end() if bare else begin


def _closing(text: str, begin: int, quote_sign: str) -> int:
    if len(quote_sign) > 1:  # in a text that was quoted twice
        at = text.find(quote_sign, begin)
        return at if at >= 0 else len(text)
    inside = _INSIDE[quote_sign].match(text, begin)
    return inside.end() if inside else begin


def _bracketed(text: str, begin: int) -> int:
    """Find the end of an object or list; brackets in its texts may make it longer."""
    depth = 0
    for index in range(begin, len(text)):
        if text[index] in "{[(":
            depth += 1
        elif text[index] in "}])":
            depth -= 1
            if not depth:
                return index + 1
    return len(text)


def _forms(secret: str) -> Iterable[str]:
    """Write a secret in the ways it may appear: escaped, quoted, and line by line."""
    lines = [line for line in secret.splitlines() if len(line) >= 2 * _SHORT]
    for text in {secret, secret.strip(), *lines}:
        if len(text) < SHORTEST:
            continue
        yield from (text, json.dumps(text)[1:-1], repr(text)[1:-1], printable(text))
        with_escapes = quote(text, safe="", errors="replace")
        yield from (with_escapes, quote_plus(text, errors="replace"))
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), with_escapes)


def _any_of(forms: set[str]) -> re.Pattern[str] | None:
    """Match any of these texts, longer ones first; short ones as words of their own."""
    long = {form for form in forms if len(form) >= _SHORT}
    patterns = [_branches(long)] if long else []
    if short := forms - long:
        patterns.append(rf"(?<!\w){_branches(short)}(?!\w)")
    return re.compile("|".join(patterns)) if patterns else None


def _branches(texts: Iterable[str], depth: int = _DEEPEST_BRANCH) -> str:
    """Match any of these texts, branching character by character at first.

    A list of all of them would be tried from its beginning at every place of a text: with the
    lines of a long secret (a bundle of certificates) a traceback would take a quarter second.
    """
    texts = sorted(texts, key=len, reverse=True)
    if len(texts) < _FEW or not depth:
        return f"(?:{'|'.join(map(re.escape, texts))})"
    heads: dict[str, list[str]] = {}
    for text in texts:
        heads.setdefault(text[:1], []).append(text[1:])
    # The empty text, with which another one begins, comes last: it is the shortest.
    parts = [
        re.escape(head) + (_branches(tails, depth - 1) if head else "")
        for head, tails in heads.items()
    ]
    return f"(?:{'|'.join(parts)})"


_current = Masker()


def install(masker: Masker) -> None:
    """Make a masker the one of this process."""
    global _current
    _current = masker


def current() -> Masker:
    """Return the masker of this process; it knows no secrets but by their keys at first."""
    return _current
