"""Tables of a run, in Markdown: the targets first, then a table a case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.cases import CASES
from benchmarks.stats import Spread, ratio, short, spread
from benchmarks.targets import judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.cases import Case
    from benchmarks.records import Record, Run

OURS = ("scheduld", "default")


class Figures:
    """The records of a run by case, contender and metric."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._values: dict[tuple[str, str, str, str], list[float]] = {}
        self._units: dict[tuple[str, str], str] = {}
        for record in records:
            key = (record.case, record.peer, record.variant, record.metric)
            self._values.setdefault(key, []).append(record.value)
            self._units[record.case, record.metric] = record.unit

    def get(self, case: str, peer: str, variant: str, metric: str) -> Spread | None:
        """Sum up the rounds of one figure, if there are any."""
        values = self._values.get((case, peer, variant, metric))
        return spread(values) if values else None

    def contenders(self, case: str) -> list[tuple[str, str]]:
        """Peer and variant of all that have figures in a case, in the order of the run."""
        return list(dict.fromkeys((key[1], key[2]) for key in self._values if key[0] == case))

    def metrics(self, case: str) -> list[tuple[str, str]]:
        """Metric and unit of a case, in the order of the run."""
        return [(metric, unit) for (name, metric), unit in self._units.items() if name == case]


def render(run: Run, *, brief: bool = False) -> str:
    """Write a run as Markdown; `brief`: each peer in its best variant, without the settings."""
    figures = Figures(run.records)
    parts = [_about(run), *_targets(run, figures)]
    parts += ["\n".join(_case(case, figures, run, brief=brief)) for case in CASES.values()]
    parts += [] if brief else [_settings(run)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(run: Run) -> str:
    rows = [f"| {name} | {value} |" for name, value in run.about.items()]
    return "\n".join(["| run on | |", "|---|---|", *rows])


def _targets(run: Run, figures: Figures) -> Iterator[str]:
    rows = [
        f"| {verdict.what} | {verdict.wanted} | {verdict.figure} | {verdict.word} |"
        for verdict in judge(run, figures)
    ]
    yield "\n".join(["## Targets", "", "| what | wanted | figure | |", "|---|---|---|---|", *rows])


def _case(case: Case, figures: Figures, run: Run, *, brief: bool) -> Iterator[str]:
    metrics = figures.metrics(case.name)
    if not metrics:
        return
    yield f"## {case.name}: {case.title}"
    yield ""
    first = metrics[0][0]
    ours = figures.get(case.name, *OURS, first)
    compared = ours is not None and len(figures.contenders(case.name)) > 1
    heads = [f"{metric}, {unit}" for metric, unit in metrics]
    heads += ["scheduld is" if case.higher_is_better else "to scheduld"] if compared else []
    yield f"| contender | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 1) + "|"
    rows = [(figures.get(case.name, *who, first), who) for who in figures.contenders(case.name)]
    rows.sort(key=lambda row: _rank(row[0], higher=case.higher_is_better))
    shown = set()
    for value, (peer, variant) in rows:
        if brief and peer in shown and (peer, variant) != OURS:
            continue
        shown.add(peer)
        cells = [cell(figures.get(case.name, peer, variant, metric)) for metric, _ in metrics]
        if compared and ours:
            cells.append(_compare(case, ours, value))
        yield f"| {peer}, {variant} | {' | '.join(cells)} |"
    notes = [note for note in run.notes if note["case"] == case.name and not brief]
    for text in dict.fromkeys(f"{n['peer']}, {n['variant']}: {n['note']}" for n in notes):
        yield f"\n{text}"


def cell(value: Spread | None) -> str:
    """Write a figure: the median, and least to most of the rounds."""
    if value is None:
        return "-"
    if value.rounds == 1 or value.least == value.most:
        return short(value.median)
    return f"{short(value.median)} ({short(value.least)} to {short(value.most)})"


def _compare(case: Case, ours: Spread, other: Spread | None) -> str:
    if other is None:
        return "-"
    if case.higher_is_better:
        found = ratio(ours.median, other.median)
    else:
        found = ratio(other.median, ours.median)
    return "-" if found is None else f"{found:.2f} x"


def _rank(value: Spread | None, *, higher: bool) -> float:
    if value is None:
        return float("inf")
    return -value.median if higher else value.median


def _settings(run: Run) -> str:
    lines = [
        "## Contenders",
        "",
        "| contender | version | delivery | settings |",
        "|---|---|---|---|",
    ]
    for name, info in run.peers.items():
        for variant, words in info["variants"].items():
            lines.append(
                f"| {name}, {variant} | {info['version']} | {info['delivery']} | {words} |"
            )
    return "\n".join(lines)
