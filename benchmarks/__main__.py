"""`scripts/bench`: install peers, run cases, print the tables of a run."""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from benchmarks import contenders
from benchmarks.cases import CASES, SMOKE, Sizes
from benchmarks.drive import DriverFailed
from benchmarks.records import Writer, read
from benchmarks.report import render
from benchmarks.runner import Runner

_SMOKE_ONLY = [
    *(f"scheduld:{variant}" for variant in ("default", "blocking", "thread", "two")),
    *(f"floor:{variant}" for variant in ("default", "tuned")),
]


def main() -> int:
    """Carry out one command line; returns the exit code."""
    options = _parser().parse_args()
    code: int = options.act(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    actions = parser.add_subparsers(required=True)
    install = actions.add_parser("install", help="put peers into benchmarks/.peers")
    install.add_argument("peer", nargs="*", help="default: all")
    install.set_defaults(act=_install)
    run = actions.add_parser("run", help="run cases; figures go to a file as JSON lines")
    run.add_argument("--cases", type=_listed, default=list(CASES), help=", ".join(CASES))
    run.add_argument("--peers", type=_listed, default=[], help="PEER or PEER:VARIANT, ...")
    run.add_argument("--rounds", type=_rounds, default=3)
    run.add_argument("--out", type=Path, help="JSON lines; default: none are kept")
    run.add_argument(
        "--smoke",
        action="store_true",
        help="tiny sizes, one round, only ours unless --peers is given",
    )
    run.set_defaults(act=_run)
    report = actions.add_parser("report", help="print the tables of a run as Markdown")
    report.add_argument("file", type=Path)
    report.add_argument("--brief", action="store_true", help="each contender at its best only")
    report.set_defaults(act=_report)
    return parser


def _rounds(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on, not {text!r}")
    return int(text)


def _listed(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _install(options: argparse.Namespace) -> int:
    known = contenders.peers()
    if unknown := sorted(set(options.peer) - set(known)):
        _tell(f"no such peer: {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    failed = []
    for name in options.peer or known:
        _tell(f"installing {name}")
        try:
            contenders.install(name)
        except (OSError, subprocess.CalledProcessError) as error:
            _tell(f"{name}: {error}")
            failed.append(name)
    return 1 if failed else 0


def _run(options: argparse.Namespace) -> int:
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        _tell(f"no such case: {', '.join(unknown)}; there are {', '.join(CASES)}")
        return 2
    names = contenders.installed()
    only = options.peers or (_SMOKE_ONLY if options.smoke else [])
    wanted = {name.partition(":")[0] for name in only}
    if absent := wanted - set(names):
        _tell(f"not there: {', '.join(sorted(absent))}; try scripts/bench install")
        return 2
    met = []
    for name in names:
        if wanted and name not in wanted:
            continue
        try:
            met.append(contenders.meet(name))
        except DriverFailed as error:
            _tell(f"{name} is left out: {error}")
    have = {f"{contender.name}:{variant}" for contender in met for variant in contender.variants}
    if unknown := [name for name in only if ":" in name and name not in have]:
        _tell(f"no such variant: {', '.join(unknown)}; there are {', '.join(sorted(have))}")
        return 2
    with ExitStack() as stack:
        out = options.out or Path("/dev/null")
        try:
            writer = Writer(stack.enter_context(out.open("w", encoding="utf-8")))
        except OSError as error:
            _tell(f"{out} cannot be written: {error.strerror}")
            return 2
        runner = Runner(met, SMOKE if options.smoke else Sizes(), writer, _tell)
        runner.run(options.cases, only, 1 if options.smoke else options.rounds)
    for failure in runner.failures:
        _tell(f"failed: {failure}")
    return 1 if runner.failures or len(met) < len(wanted) else 0


def _report(options: argparse.Namespace) -> int:
    try:
        with options.file.open(encoding="utf-8") as lines:
            text = render(read(lines), brief=options.brief)
    except (OSError, ValueError, KeyError, TypeError) as error:
        _tell(f"{options.file} is no file of a run: {error}")
        return 2
    print(text, end="")  # noqa: T201
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
