"""Which hosts and addresses a payload's URL may lead to."""

from __future__ import annotations

import pytest

from scheduld.handlers.hosts import is_public, parse_pattern


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "3fff::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:a9fe:a9fe",
        "::127.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:db8::1",
        "2001::1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "127.0.0.1.",
        "localhost",
        "",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    """Private, loopback, link-local, metadata, multicast and oddly spelled ones are refused."""
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_addresses_that_are_public(address: str) -> None:
    """Addresses of the open internet are taken, also those that stand for one."""
    assert is_public(address)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "expected"),
    [
        ("example.com", "example.com", 443, True),
        ("Example.COM", "example.com", 443, True),
        ("example.com", "example.com.", 443, True),
        ("example.com", "example.com", 8443, False),
        ("example.com:8443", "example.com", 8443, True),
        ("example.com:8443", "example.com", 443, False),
        ("example.com", "a.example.com", 443, False),
        ("example.com", "notexample.com", 443, False),
        ("example.com", "example.com.evil.org", 443, False),
        ("*.example.com", "a.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "aexample.com", 443, False),
        ("*.example.com:8080", "a.example.com", 8080, True),
        ("*", "anything.org", 443, True),
        ("*", "anything.org", 8080, False),
        ("10.0.0.5:80", "10.0.0.5", 80, True),
        ("[2001:DB8:0::1]:443", "2001:db8::1", 443, True),
    ],
)
def test_patterns(pattern: str, host: str, port: int, expected: bool) -> None:
    """A pattern means one host or all below it, at one port: by default the scheme's own."""
    found = parse_pattern(pattern)
    assert found is not None
    assert found.matches(host, port, default_port=443) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://example.com",
        "example.com/path",
        "a.*.com",
        "*example.com",
        "*.*",
        "**",
        "user@example.com",
        "example.com:0",
        "example.com:99999",
        "example.com:",
        "exa mple.com",
        ".example.com",
        "[::1",
        "[zz::1]",
        "ex\u00e4mple.com",
    ],
)
def test_what_is_no_pattern(text: str) -> None:
    """Anything that could be meant in two ways is refused."""
    assert parse_pattern(text) is None
