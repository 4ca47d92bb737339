"""When a replica says that its host's clock is off."""

from __future__ import annotations

import pytest

from scheduld.engine.wallclock import WallClock, log, news


@pytest.mark.parametrize(
    ("ahead_ms", "doubt_ms", "told_ms", "expected"),
    [
        (0, 0, 0, False),
        (1_000, 0, 0, False),
        (1_001, 0, 0, True),
        (-3_000, 0, 0, True),
        (1_500, 600, 0, False),  # within what a slow answer leaves open
        (3_100, 0, 3_000, False),
        (5_000, 0, 3_000, True),
        (-3_000, 0, 3_000, True),
        (3_600_000, 0, 3_599_000, False),
        (10 * 365 * 86_400_000, 0, 3_000, True),
    ],
)
def test_a_clock_that_is_off_is_news_once(
    ahead_ms: float, doubt_ms: float, told_ms: float, expected: bool
) -> None:
    """More than a second is told, and told again only when it has changed much."""
    assert news(ahead_ms, doubt_ms, told_ms) is expected


def test_the_end_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line when it is off, one when it is right, and one when it is off again."""
    told: list[str] = []
    monkeypatch.setattr(log, "warning", lambda _, **more: told.append(f"off {more['ahead_s']}"))
    monkeypatch.setattr(log, "info", lambda _: told.append("right"))
    clock = WallClock()
    for ahead_ms in (10, 3_000, 3_050, 2_990, 200, 100, -4_000):
        clock.compared(ahead_ms, 1)
    assert told == ["off 3.0", "right", "off -4.0"]
