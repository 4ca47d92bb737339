"""The benchmark's own arithmetic: sums, ratios, records, tables and verdicts."""

from __future__ import annotations

import io

import pytest

from benchmarks import contenders
from benchmarks.cases import CASES, SMOKE, Sizes
from benchmarks.drive import Driver, DriverFailed, Unsupported, act, parse
from benchmarks.records import Record, Run, Writer, read
from benchmarks.report import Figures, render
from benchmarks.runner import entries
from benchmarks.stats import percentile, ratio, short, spread
from benchmarks.targets import floor_variant, judge
from benchmarks.work import FIRST_S, instants, lateness, payload


def _run(*records: Record, **deliveries: str) -> Run:
    infos = {
        peer: {"version": "1", "delivery": delivery, "variants": {"default": "none"}}
        for peer, delivery in deliveries.items()
    }
    return Run({"cores": 2}, infos, [], list(records))


def _rates(case: str, peer: str, *values: float, variant: str = "default") -> list[Record]:
    return [
        Record(case, "rate", peer, variant, number, value, "tasks/s")
        for number, value in enumerate(values, 1)
    ]


def _verdict(run: Run, what: str) -> tuple[str, bool | None]:
    (found,) = [each for each in judge(run, Figures(run.records)) if each.what == what]
    return found.figure, found.reached


def test_a_spread_is_the_median_with_least_and_most() -> None:
    """Rounds are summed up by what a single bad one cannot move."""
    found = spread([3.0, 100.0, 1.0])
    assert (found.median, found.least, found.most, found.rounds) == (3.0, 1.0, 100.0, 3)
    with pytest.raises(ValueError, match="no rounds"):
        spread([])


@pytest.mark.parametrize(
    ("percent", "value"), [(0, 1), (1, 1), (50, 50), (99, 99), (99.5, 100), (100, 100)]
)
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    """Nearest rank: so many percent of all are no greater."""
    assert percentile(list(range(100, 0, -1)), percent) == value


def test_a_percentile_of_nothing_is_refused() -> None:
    """A case without values has no figure, rather than a good one."""
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_a_ratio_needs_a_base() -> None:
    """Nothing is infinitely better than zero."""
    assert ratio(6, 3) == 2
    assert ratio(6, 0) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.12345, "0.123"),
        (1.2345, "1.23"),
        (56.78, "56.8"),
        (999.4, "999"),
        (14_218.0, "14,200"),
        (-2_345.0, "-2,340"),
        (0.00001, "0.0000"),
    ],
)
def test_three_digits_are_shown(value: float, text: str) -> None:
    """More digits than a machine repeats would be a pretence."""
    assert short(value) == text


def test_instants_are_the_same_for_all_contenders() -> None:
    """Seeded, in order, from FIRST_S ahead, within the span."""
    plan = instants(500, 20, 1_000_000.0)
    assert plan == instants(500, 20, 1_000_000.0) == sorted(plan)
    assert 1_000_000 + FIRST_S * 1000 <= plan[0] <= plan[-1] <= 1_022_000
    assert {type(ms) for ms in plan} == {int}


def test_lateness_counts_what_started_early() -> None:
    """A start before its due time is early, however little."""
    answer = lateness([10.5, 19.999, 30.0], [10, 20, 30])
    assert answer == {"count": 3, "lateness_ms": [0.5, -0.001, 0.0], "early": 1}


def test_the_payload_is_about_36_bytes() -> None:
    """The same for every contender."""
    assert payload(12_345) == {"to": "user12345@example.com", "n": 12345}


@pytest.mark.parametrize("line", ["", "READY", "[1]", "{"])
def test_a_line_without_an_object_is_no_answer(line: str) -> None:
    """A driver that said something else has failed."""
    assert parse(line) is None


def _driver(program: str) -> Driver:
    return Driver("x", ("/bin/sh", "-c", program))


def test_a_driver_answers_with_its_last_line() -> None:
    """READY is told while the driver goes on, noise before the answer is passed over."""
    heard: list[str] = []
    program = "echo noise; echo READY; echo '{\"seconds\": 2}'"
    answer = act(_driver(program), "work", [], timeout_s=10, on_ready=lambda: heard.append("ready"))
    assert answer.number("seconds") == 2
    assert answer.cpu_s >= 0
    assert heard == ["ready"]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("echo '{}'; echo broken >&2; exit 3", "exit 3.*broken"),
        ("echo done", "said 'done'"),
        ("sleep 60", "exit -9"),
    ],
)
def test_a_driver_that_fails_says_why(program: str, words: str) -> None:
    """The message has the exit code, the last line, and the end of stderr; a hung one is killed."""
    with pytest.raises(DriverFailed, match=f"(?s){words}"):
        act(_driver(program), "work", [], timeout_s=2)


def test_what_a_peer_cannot_do_is_no_failure() -> None:
    """It says why, and the case goes on without it."""
    with pytest.raises(Unsupported, match="no bulk call"):
        act(_driver('echo \'{"unsupported": "no bulk call"}\''), "add", [], timeout_s=10)


def test_what_is_written_is_read_again() -> None:
    """JSON lines: the machine, the contenders, figures, and why some are missing."""
    file = io.StringIO()
    writer = Writer(file)
    record = Record("drain", "rate", "scheduld", "default", 1, 2.5, "tasks/s")
    writer.about({"cores": 2})
    writer.peer("arq", {"version": "1", "delivery": "x", "variants": {}})
    writer.record(record)
    writer.note("add-bulk", "arq", "default", "no bulk call")
    run = read(file.getvalue().splitlines())
    assert run.about == {"cores": 2}
    assert run.peers == {"arq": {"version": "1", "delivery": "x", "variants": {}}}
    assert run.records == [record]
    assert [note["note"] for note in run.notes] == ["no bulk call"]


def test_a_table_has_medians_spans_and_ratios() -> None:
    """Best first; the ratio says how many times the other scheduld is."""
    run = _run(
        *_rates("drain", "arq", 90, 100, 110),
        *_rates("drain", "scheduld", 400, 400, 400),
        arq="at-least-once",
    )
    lines = render(run).splitlines()
    ours = lines.index("| scheduld, default | 400 | 1.00 x |")
    assert lines[ours + 1] == "| arq, default | 100 (90.0 to 110) | 4.00 x |"
    assert "| arq, default | 1 | at-least-once | none |" in lines


def test_a_brief_table_has_each_peer_at_its_best() -> None:
    """One line a peer; scheduld's default is always among them."""
    run = _run(
        *_rates("drain", "scheduld", 300),
        *_rates("drain", "scheduld", 400, variant="tuned"),
        *_rates("drain", "arq", 10),
        *_rates("drain", "arq", 20, variant="tuned"),
        arq="at-least-once",
    )
    rows = [line.split(" | ")[0] for line in render(run, brief=True).splitlines()]
    last = rows.index("| arq, tuned")
    assert rows[last - 2 :] == ["| scheduld, tuned", "| scheduld, default", "| arq, tuned"]


def test_where_less_is_better_the_ratio_is_turned() -> None:
    """A peer that is twice as late is 2 x to scheduld, and comes after it."""
    late = [
        Record("late", "p50", peer, "default", 1, value, "ms")
        for peer, value in (("arq", 1.0), ("scheduld", 0.5))
    ]
    lines = render(_run(*late)).splitlines()
    ours = lines.index("| scheduld, default | 0.500 | 1.00 x |")
    assert lines[ours + 1] == "| arq, default | 1.00 | 2.00 x |"


def test_a_note_stands_under_its_table_once() -> None:
    """Why a figure is missing is told where it is missed."""
    run = _run(*_rates("drain", "arq", 1))
    note = {"note": "no worker", "case": "drain", "peer": "rq", "variant": "default"}
    run.notes.extend([note, note])
    assert render(run).count("rq, default: no worker") == 1


def test_without_figures_nothing_is_claimed() -> None:
    """A target is reached, missed, or not measured."""
    verdicts = judge(_run(), Figures([]))
    assert {verdict.reached for verdict in verdicts} == {None}
    assert {verdict.word for verdict in verdicts} == {"not measured"}
    assert len({verdict.what for verdict in verdicts}) == len(verdicts)


def test_bullmq_is_met_at_its_best_variant() -> None:
    """Not at the one that flatters us."""
    run = _run(
        *_rates("drain", "scheduld", 300),
        *_rates("drain", "bullmq", 100),
        *_rates("drain", "bullmq", 150, variant="tuned"),
    )
    assert _verdict(run, "drain to BullMQ at its best") == ("2.00 x (300 to 150)", False)


def test_only_safe_python_peers_count_as_such() -> None:
    """A peer that may lose tasks is shown, and not compared by the target."""
    run = _run(
        *_rates("drain", "scheduld", 1300),
        *_rates("drain", "bullmq", 9000),
        *_rates("drain", "arq", 900),
        *_rates("drain", "taskiq", 100),
        *_rates("drain", "taskiq", 500, variant="lossy"),
        bullmq="at-least-once",
        arq="at-most-once",
        taskiq="at-least-once (stream)",
    )
    what = "drain to the best at-least-once Python peer"
    assert _verdict(run, what) == ("13.00 x (1,300 to 100)", True)


@pytest.mark.parametrize(
    ("batch", "variant"), [(3, "batch50"), (48, "batch50"), (99, "default"), (400, "batch500")]
)
def test_the_floor_is_met_at_the_batch_that_was_used(batch: float, variant: str) -> None:
    """A smaller batch costs the floor as much as us."""
    assert floor_variant(batch) == variant
    floors = {"batch50": 10.0, "default": 20.0, "batch500": 40.0}
    floor = [
        r for name, rate in floors.items() for r in _rates("drain", "floor", rate, variant=name)
    ]
    used = Record("drain", "batch", "scheduld", "default", 1, batch, "tasks/script call")
    verdicts = judge(
        run := _run(*_rates("drain", "scheduld", 10), used, *floor), Figures(run.records)
    )
    (found,) = [verdict for verdict in verdicts if verdict.what.startswith("drain to the floor")]
    assert found.figure.startswith(f"{10 / floors[variant]:.2f} x")


def test_memory_is_held_against_every_peer() -> None:
    """The lightest of them is the bound."""
    run = _run(
        *[
            Record("memory", "memory", peer, "default", 1, value, "bytes/task")
            for peer, value in (("scheduld", 280), ("huey", 289), ("arq", 391))
        ]
    )
    assert _verdict(run, "Redis memory of a pending task") == ("280 bytes", True)


def test_any_start_before_its_time_is_a_miss() -> None:
    """Never early is a promise, so one is too many."""
    early = [
        Record(case, "early", "scheduld", "default", 1, value, "tasks")
        for case, value in (("late", 0), ("instant", 1))
    ]
    assert _verdict(_run(*early), "started early") == ("1.00 tasks", False)


def test_a_case_says_who_takes_part() -> None:
    """Named variants for us, all of them for the peers, and `only` narrows it."""
    ours = contenders.Contender(Driver("scheduld", ()), "1", "", {"default": "", "thread": ""})
    peer = contenders.Contender(Driver("arq", ()), "1", "", {"default": "", "tuned": ""})
    case = CASES["drain"]
    taking = [(found.name, variant) for found, variant in entries(case, [ours, peer], [])]
    assert taking == [("scheduld", "default"), ("arq", "default"), ("arq", "tuned")]
    only = [(found.name, variant) for found, variant in entries(case, [ours, peer], ["arq:tuned"])]
    assert only == [("arq", "tuned")]
    assert entries(CASES["growth"], [peer], []) == []


def test_every_peer_can_be_installed() -> None:
    """A driver comes with what it needs, in pinned versions."""
    for name in contenders.peers():
        folder = contenders.HERE / "peers" / name
        assert (folder / "requirements.txt").exists() or (folder / "package.json").exists(), name


def test_the_smoke_run_is_small_in_every_way() -> None:
    """No size of it is that of a real run."""
    real = Sizes()
    for name in Sizes.__dataclass_fields__:
        assert getattr(SMOKE, name) < getattr(real, name), name


def test_cases_are_found_by_their_names() -> None:
    """And each says what it does."""
    assert all(case.title for case in CASES.values())
    assert [case.name for case in CASES.values()] == list(CASES)
