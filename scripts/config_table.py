"""Write the table of settings in docs/configuration.md from the model.

python scripts/config_table.py           rewrite the table
python scripts/config_table.py --check   exit 1 if it is not up to date
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from docs_page import keep
from pydantic import BeforeValidator

from scheduld.config.model import MODELS
from scheduld.config.values import Duration, Durations, Size, show_bytes
from scheduld.duration import format_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo


def table() -> str:
    """Return the tables of all settings as Markdown."""
    return "\n".join(line for name in MODELS for line in _section(name)) + "\n"


def _section(name: str) -> Iterator[str]:
    yield f"\n### `[{name}]`\n"
    yield "| key | accepts | default | meaning |"
    yield "|---|---|---|---|"
    for key, setting in MODELS[name].model_fields.items():
        parser = _parser(setting)
        accepts = getattr(parser, "kind", "table")
        cells = (f"`{key}`", accepts, _default(parser, setting), setting.description or "")
        yield f"| {' | '.join(cells)} |"


def _parser(setting: FieldInfo) -> Any:
    return next((item.func for item in setting.metadata if isinstance(item, BeforeValidator)), None)


def _default(parser: Any, setting: FieldInfo) -> str:
    value = setting.default
    if setting.is_required():
        return "required"
    if value is None or setting.default_factory:
        return ""
    if isinstance(parser, Duration | Durations):
        return f'`"{format_ms(value)}"`'
    if isinstance(parser, Size):
        return f'`"{show_bytes(value)}"`'
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


if __name__ == "__main__":
    sys.exit(keep("configuration.md", "table of settings", table(), sys.argv[1:]))
