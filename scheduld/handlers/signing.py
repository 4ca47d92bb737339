"""Signatures of webhooks, as the Standard Webhooks specification describes them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFIX = "whsec_"
"""Begins a secret that is base64; others are used as they are written."""
HEADERS = ("webhook-id", "webhook-timestamp", "webhook-signature")


def read_secret(text: str) -> bytes | None:
    """Return the key that a secret stands for; None if it is broken."""
    if not text.startswith(PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True) or None
    except (binascii.Error, ValueError):
        return None


def sign(keys: Sequence[bytes], *, identity: str, now_s: int, body: bytes) -> dict[str, str]:
    """Make the three headers; several keys make several signatures, any of which is enough.

    `identity` (ASCII) is the webhook-id, `now_s` the time of sending, in seconds.
    """
    content = f"{identity}.{now_s}.".encode() + body
    marks = [
        base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode("ascii") for key in keys
    ]
    values = (identity, str(now_s), " ".join(f"v1,{mark}" for mark in marks))
    return dict(zip(HEADERS, values, strict=True))
