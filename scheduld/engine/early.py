"""Tasks claimed a little before their due, until they are confirmed just before it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from scheduld.engine.plan import LEAD_S

if TYPE_CHECKING:
    from scheduld.model import Claim


class Early:
    """Early claims with the monotonic second of their due; one call confirms those near it."""

    def __init__(self) -> None:
        self._claims: dict[tuple[bytes, int], tuple[float, Claim]] = {}

    @property
    def confirm_at(self) -> float:
        """Monotonic second of the next confirmation; infinity if there is none."""
        return min((at for at, _ in self._claims.values()), default=math.inf) - LEAD_S

    def is_due(self, now: float) -> bool:
        """Whether one should be confirmed now."""
        return self.confirm_at <= now

    def add(self, claim: Claim, due_at: float) -> None:
        """Hold a claim whose due is at monotonic second `due_at`."""
        self._claims[claim.raw_id, claim.fence] = (due_at, claim)

    def due(self, now: float) -> list[Claim]:
        """Those to confirm now."""
        return [claim for at, claim in self._claims.values() if at - LEAD_S <= now]

    def remove(self, claim: Claim) -> bool:
        """Let one go; tells whether it was held."""
        return self._claims.pop((claim.raw_id, claim.fence), None) is not None

    def clear(self) -> list[Claim]:
        """Let all go."""
        claims = [claim for _, claim in self._claims.values()]
        self._claims.clear()
        return claims
