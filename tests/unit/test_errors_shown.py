"""What people see of an error that nobody catches."""

from __future__ import annotations

import traceback

import pytest

from scheduld import WhenError, parse_when


def test_a_traceback_ends_with_the_hint() -> None:
    """What would be right stands below what is wrong; the text of the error stays as it is."""
    with pytest.raises(WhenError) as caught:
        parse_when("2100-01-01 09:00")
    shown = traceback.format_exception_only(caught.value)
    assert shown[0] == "scheduld.errors.WhenError: '2100-01-01 09:00' has no time zone\n"
    assert shown[1].startswith("hint: write 2100-01-01T09:00:00Z or an offset")
    assert str(caught.value) == "'2100-01-01 09:00' has no time zone"
