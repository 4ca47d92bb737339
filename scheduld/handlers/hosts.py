"""Where a URL out of a payload may lead: patterns of hosts, and addresses that are public. No I/O.

A name says nothing about where it leads, and may lead elsewhere a moment later: so hosts are
matched when the URL is read, and addresses are checked when they are connected to.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_PATTERN = re.compile(
    rf"(?P<wild>\*\.)?(?P<host>\*|{_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::(?P<port>\d{{1,5}}))?"
)
# Beyond what `is_global` says in every Python 3.11: protocol assignments, relays, documentation,
# and the address at which the machines of one large provider find their own metadata.
_NOT_PUBLIC = [
    ipaddress.ip_network(text)
    for text in (
        "192.0.0.0/24",
        "192.88.99.0/24",
        "168.63.129.16/32",
        "64:ff9b:1::/48",
        "fec0::/10",
        "3fff::/20",
    )
]
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class HostPattern:
    """`example.com`, `*.example.com` (anything below it), `*`; without port the scheme's own."""

    host: str
    is_wild: bool
    port: int | None

    def matches(self, host: str, port: int, *, default_port: int | None) -> bool:
        """Whether a URL with this host (lower case, ASCII) and port is meant."""
        if port != (default_port if self.port is None else self.port):
            return False
        if self.host == "*":
            return True
        host = host.removesuffix(".")
        return host.endswith(f".{self.host}") if self.is_wild else host == self.host


def parse_pattern(text: str) -> HostPattern | None:
    """Read a pattern; None if it is none."""
    found = _PATTERN.fullmatch(text.lower())
    if found is None or (found["wild"] and found["host"].startswith(("*", "["))):
        return None
    host, port = found["host"], int(found["port"]) if found["port"] else None
    if port is not None and not 0 < port < 65_536:
        return None
    if host.startswith("["):
        try:
            host = ipaddress.IPv6Address(host[1:-1]).compressed
        except ValueError:
            return None
    return HostPattern(host, bool(found["wild"]), port)


def is_public(text: str) -> bool:
    """Whether a numeric address is one of the open internet.

    False for every other spelling of an address (`2130706433`, `0177.0.0.1`), which some
    systems read as one.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return all(map(_is_public, _meanings(address)))


def _meanings(address: Address) -> list[Address]:
    """The address, and the IPv4 address that it stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)]
    if address.sixtofour:
        return [address, address.sixtofour]
    return [address]


def _is_public(address: Address) -> bool:
    if any(address.version == network.version and address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved
