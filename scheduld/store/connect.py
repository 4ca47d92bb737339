"""From settings to a server: the URL to connect to, the embedded server joined if it is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from scheduld.config.settings import Settings
    from scheduld.store.embedded import Membership

EMBEDDED = "embedded"


def join(settings: Settings, *, wait_s: float = 10.0) -> tuple[str, Membership | None]:
    """Return the URL of the server, and for the embedded one the hold on it.

    Blocks up to `wait_s` seconds while the embedded server starts; raises Unreachable.
    """
    if settings.redis_url != EMBEDDED:
        return settings.redis_url, None
    from scheduld.store.embedded import EmbeddedServer  # of no use to all others, and large

    membership = EmbeddedServer.join(
        settings.state_dir, appendfsync=settings.appendfsync, wait_s=wait_s
    )
    return "unix://" + quote(membership.socket_path), membership
