"""Signatures agree with the specification's own example, and with a check made independently."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from scheduld.handlers.signing import read_secret, sign


def test_a_known_signature() -> None:
    """The example that libraries of the specification test themselves with."""
    key = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    assert key is not None
    headers = sign(
        [key],
        identity="msg_p5jXN8AQM9LWM0D4loKWxJek",
        now_s=1_614_265_330,
        body=b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_several_keys_make_several_signatures() -> None:
    """While a secret is changed, receivers with the old and with the new one are content."""
    keys = [b"old", b"new"]
    headers = sign(keys, identity="a/b", now_s=1, body=b"{}")
    expected = [
        "v1," + base64.b64encode(hmac.new(key, b"a/b.1.{}", hashlib.sha256).digest()).decode()
        for key in keys
    ]
    assert headers["webhook-signature"].split(" ") == expected


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("plain text", b"plain text"),
        ("whsec_AAEC", b"\x00\x01\x02"),
        ("whsec_", None),
        ("whsec_***", None),
        ("whsec_AAE", None),
    ],
)
def test_secrets(text: str, key: bytes | None) -> None:
    """`whsec_` begins base64, which must be that; anything else is the key itself."""
    assert read_secret(text) == key
