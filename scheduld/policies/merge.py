"""JSON merge patches (RFC 7396): how a patch changes a payload. Pure."""

from __future__ import annotations

from typing import Any


def merge(value: Any, patch: Any) -> Any:
    """Return `value` changed by `patch`; neither is touched.

    Objects are merged at every depth, null deletes a key, and all else replaces what was there.
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), change)
    return merged
