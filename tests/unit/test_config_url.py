"""Redis URLs: what is accepted, what is refused, and that no secret is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduld.config.faults import BadValue
from scheduld.config.url import mask_url, parse_redis_url

SECRET = "geheim"


@pytest.mark.parametrize(
    ("url", "parsed", "masked"),
    [
        ("embedded", "embedded", "embedded"),
        ("redis://h", "redis://h", "redis://h"),
        ("redis://h:6379/0", "redis://h:6379/0", "redis://h:6379/0"),
        ("REDIS://h", "redis://h", "redis://h"),
        ("redis://[::1]:6379/2", "redis://[::1]:6379/2", "redis://[::1]:6379/2"),
        ("valkey://h/1", "redis://h/1", "redis://h/1"),
        ("valkeys://h", "rediss://h", "rediss://h"),
        (f"redis://ana:{SECRET}@h/1", f"redis://ana:{SECRET}@h/1", "redis://h/1"),
        (f"redis://:{SECRET}@h", f"redis://:{SECRET}@h", "redis://h"),
        (f"redis://a:b@{SECRET}@h", f"redis://a:b@{SECRET}@h", "redis://h"),
        (
            f"redis://h?password={SECRET}&db=2",
            f"redis://h?password={SECRET}&db=2",
            "redis://h?db=2",
        ),
        ("rediss://h?ssl_ca_certs=/a/b.pem", "rediss://h?ssl_ca_certs=/a/b.pem", None),
        ("unix:///run/redis.sock", "unix:///run/redis.sock", "unix:///run/redis.sock"),
        (
            f"unix://u:{SECRET}@/r.sock?db=1",
            f"unix://u:{SECRET}@/r.sock?db=1",
            "unix:///r.sock?db=1",
        ),
    ],
)
def test_good_urls(url: str, parsed: str, masked: str | None) -> None:
    """A good URL is kept but for its scheme; masked, it has lost user, password and secrets."""
    assert parse_redis_url(url) == parsed
    assert mask_url(url) == (masked or url)
    assert SECRET not in mask_url(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "empty"),
        (SECRET, "is no Redis URL"),
        (f"h:6379/{SECRET}", "is no Redis URL"),
        (f"http://{SECRET}@h", "is no Redis URL"),
        (f"redis+sentinel://{SECRET}@h", "redis+sentinel:// is not in this version"),
        (f"redis+cluster://{SECRET}@h", "redis+cluster:// is not in this version"),
        ("redis://", "no host"),
        ("redis:///0", "no host"),
        (f"redis://:{SECRET}@", "no host"),
        (f"redis://:{SECRET}@:6379", "no host"),
        (f"redis://:{SECRET}@a,b", "no host, or a malformed one"),
        (f"redis://:{SECRET}/x@h", "malformed host or port"),
        (f"redis://h:{SECRET}", "malformed host or port"),
        (f"redis://:{SECRET}@h:99999", "malformed host or port"),
        (f"redis://:{SECRET}@h:0", "port 0"),
        (f"redis://[{SECRET}", "malformed host or port"),
        (f"redis://user:12/{SECRET}@h", "no database number"),
        (f"redis://:{SECRET}@h/one", "no database number"),
        (f"redis://h/0/{SECRET}", "no database number"),
        (f"redis://h#{SECRET}", '"#"'),
        ("redis://h#", '"#"'),
        (f"redis://h?{SECRET}=1", "parameter that is not known"),
        (f"redis://h?socket_timeout=1&password={SECRET}", "parameter that is not known"),
        ("redis://h?ssl_keyfile=/a", "parameter that is not known"),
        (f"redis://h?{SECRET}", "malformed parameters"),
        (f"redis://h?db={SECRET}", "db that is no number"),
        (f"redis://h/0\n{SECRET}", "control characters"),
        (f" redis://:{SECRET}@h", "spaces"),
        (f"redis://{SECRET}\x00@h", "control characters"),
        ("unix://", "no socket"),
        (f"unix://{SECRET}", "no socket"),
        (f"unix://{SECRET}/redis.sock", "relative socket path"),
    ],
)
def test_bad_urls(url: str, words: str) -> None:
    """A URL that cannot work is refused with the reason, quoting nothing of it."""
    with pytest.raises(BadValue) as caught:
        parse_redis_url(url)
    assert words in caught.value.message
    assert SECRET not in caught.value.words
    assert caught.value.hint
    assert mask_url(url) == "(hidden)"


@given(st.text(), st.text(), st.sampled_from(["h", "h:1", "h/0", "[::1]", ""]))
def test_no_password_is_ever_shown(user: str, password: str, rest: str) -> None:
    """Whatever stands before the host, masking shows none of it, and never fails."""
    secret = f"<{password}>"
    shown = mask_url(f"redis://{user}:{secret}@{rest}")
    assert secret not in shown
    assert shown in {"(hidden)", f"redis://{rest}"}
