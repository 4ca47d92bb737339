"""Config files with one mistake each: every one is refused, with its line and the right words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from scheduld.config.light import client_settings
from scheduld.config.load import load
from scheduld.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "geheim-4711"
ENV = {"HOME": "/home/ana", "SECRET": SECRET}
GOOD = """\
[scheduld]
redis_url = "redis://localhost"
[types.email]
handler = "log"
"""
SCHEDULD = "redis_url = "
TYPE = "handler = "

# (inserted line, key whose line it is put before, path of the problem, part of its words)
MUTATIONS = [
    # misspelt
    ('redis_tiemout = "2s"', SCHEDULD, "scheduld.redis_tiemout", "did you mean redis_timeout?"),
    ('Namespace = "x"', SCHEDULD, "scheduld.Namespace", "did you mean namespace?"),
    ("tiemout = 5", TYPE, "types.email.tiemout", "unknown key"),
    ('run_timeuot = "5s"', TYPE, "types.email.run_timeuot", "did you mean run_timeout?"),
    ("retry.atempts = 5", TYPE, "types.email.retry.atempts", "did you mean attempts?"),
    ("keep_done.agee = 5", TYPE, "types.email.keep_done.agee", "did you mean age?"),
    ("[schedludd]\n", "[scheduld]", "schedludd", "did you mean scheduld?"),
    ("[embedded]\nfsync = 1", "[scheduld]", "embedded.fsync", "did you mean appendfsync?"),
    # on the wrong level
    ('lease = "5s"', TYPE, "types.email.lease", "it belongs in [scheduld]"),
    ('run_timeout = "5s"', SCHEDULD, "scheduld.run_timeout", "it belongs in [types.NAME]"),
    ("attempts = 5", TYPE, "types.email.attempts", "it belongs in [types.NAME.retry]"),
    ('namespace = "x"', "[scheduld]", "namespace", "it belongs in [scheduld]"),
    ("[sms]\nhandler = 'x'", "[scheduld]", "sms", "did you mean [types.sms]?"),
    # not yet
    ('durable = "both"', SCHEDULD, "scheduld.durable", '"memory" or "disk" or "replica"'),
    ("[log]\nformat = 'xml'", "[scheduld]", "log.format", '"auto" or "text" or "json"'),
    ("[log]\nmask = 'password'", "[scheduld]", "log.mask", "an array of texts"),
    ("[log]\nmask = ['']", "[scheduld]", "log.mask", "is empty"),
    ("reschedule_if = true", TYPE, "types.email.reschedule_if", "must be a text"),
    ('reschedule_timeout = "soon"', TYPE, "types.email.reschedule_timeout", "soon"),
    ('series = ["-7d", "0"]', TYPE, "types.email.series", "needs anchor"),
    ('anchor = "starts"', TYPE, "types.email.anchor", "needs series"),
    ('anchor = ""', TYPE, "types.email.anchor", "is empty"),
    ("anchor = 5", TYPE, "types.email.anchor", "a text, not a whole number"),
    ('anchor = "a\\nb"', TYPE, "types.email.anchor", "one line"),
    ('series = "-7d"', TYPE, "types.email.series", "an array of offsets, not a text"),
    ("series = []", TYPE, "types.email.series", "is empty"),
    ("series = [-7]", TYPE, "types.email.series", "an array of texts, not a whole number"),
    ('series = ["7d"]', TYPE, "types.email.series", "has no sign"),
    ('series = ["-7d", "-1w"]', TYPE, "types.email.series", "twice"),
    ('series = ["-7d12h"]', TYPE, "types.email.series", "mixes"),
    ('series = ["${SECRET}"]', TYPE, "types.email.series", "is no series of offsets"),
    ('isolation = "fork"', TYPE, "types.email.isolation", '"inline" or "thread" or "process"'),
    ('max_memory = "512MB"', TYPE, "types.email.max_memory", 'isolation = "process"'),
    ("rate_limit = 100", TYPE, "types.email.rate_limit", "a rate"),
    ('rate_limit = "100"', TYPE, "types.email.rate_limit", "is no rate"),
    ('rate_limit = "100/y"', TYPE, "types.email.rate_limit", "period"),
    ('rate_limit_per_key = "0/m"', TYPE, "types.email.rate_limit_per_key", "1 to 100000"),
    # of another type
    ('concurrency = "5"', TYPE, "types.email.concurrency", "a whole number, not a text"),
    ("concurrency = true", TYPE, "types.email.concurrency", "a whole number, not a boolean"),
    ("concurrency = 5.0", SCHEDULD, "scheduld.concurrency", "not a number with a fraction"),
    ("retry.jitter = '0.1'", TYPE, "types.email.retry.jitter", "a number, not a text"),
    ("lease = true", SCHEDULD, "scheduld.lease", "a duration, not a boolean"),
    ("namespace = 2026-01-01", SCHEDULD, "scheduld.namespace", "a text, not a date"),
    ("timezone = 07:30:00", SCHEDULD, "scheduld.timezone", "a text, not a date or time"),
    ("lease = 2026-01-01T00:00:00Z", SCHEDULD, "scheduld.lease", "a duration, not a date"),
    ("state_dir = ['/a']", SCHEDULD, "scheduld.state_dir", "a text, not an array"),
    ("max_payload = 1.5", SCHEDULD, "scheduld.max_payload", "a size, not a number"),
    ("retry = 5", TYPE, "types.email.retry", "a table, not a whole number"),
    ("options = []", TYPE, "types.email.options", "a table, not an array"),
    ("embedded = 5", "[scheduld]", "embedded", "a table, not a whole number"),
    ("isolation = 1", TYPE, "types.email.isolation", 'must be "inline" or "thread"'),
    # impossible
    ("lease = 0", SCHEDULD, "scheduld.lease", "must be 500ms to 1d"),
    ("lease = 1e400", SCHEDULD, "scheduld.lease", "inf"),
    ("lease = -1", SCHEDULD, "scheduld.lease", "negative"),
    ('lease = "499ms"', SCHEDULD, "scheduld.lease", "must be 500ms to 1d"),
    ('redis_timeout = "6s"', SCHEDULD, "scheduld.redis_timeout", "at most lease/6"),
    ("concurrency = 0", SCHEDULD, "scheduld.concurrency", "must be 1 to 10000"),
    ('timezone = "Europe/Madird"', SCHEDULD, "scheduld.timezone", "Europe/Madrid"),
    ('timezone = ""', SCHEDULD, "scheduld.timezone", "is empty"),
    ('state_dir = "~/state"', SCHEDULD, "scheduld.state_dir", "absolute path"),
    ('namespace = "My Shop"', SCHEDULD, "scheduld.namespace", "not a name"),
    ('max_payload = "256 kb"', SCHEDULD, "scheduld.max_payload", '"256KB"'),
    ("max_payload = -1", SCHEDULD, "scheduld.max_payload", "is no size"),
    ('max_payload = "5MB"', SCHEDULD, "scheduld.max_payload", "2B to 4MB"),
    ("run_timeout = nan", TYPE, "types.email.run_timeout", "nan"),
    ("run_timeout = inf", TYPE, "types.email.run_timeout", "inf"),
    ('run_timeout = "5 minutes"', TYPE, "types.email.run_timeout", "such as"),
    ("run_timeout = 99999999999999999999", TYPE, "types.email.run_timeout", "longer than"),
    ("poll_timeout = -0.1", TYPE, "types.email.poll_timeout", "negative"),
    ("poll_batch = 501", TYPE, "types.email.poll_batch", "must be 1 to 500"),
    ('empty_poll_timeout = "9ms"', TYPE, "types.email.empty_poll_timeout", "must be 10ms to 1d"),
    ('poll_timeout = "11s"', TYPE, "types.email.empty_poll_timeout", "at least poll_timeout"),
    ('isolation = "thraed"', TYPE, "types.email.isolation", 'must be "inline" or "thread"'),
    ("retry.attempts = 0", TYPE, "types.email.retry.attempts", "must be 1 to"),
    ("retry.jitter = nan", TYPE, "types.email.retry.jitter", "must be 0 to 1"),
    ("retry.jitter = 20", TYPE, "types.email.retry.jitter", "must be 0 to 1"),
    ('retry.backoff = "linear"', TYPE, "types.email.retry.backoff", "exponential"),
    ('retry.backoff = "list"', TYPE, "types.email.retry.backoff", "array"),
    ('retry.delay = ["1s"]', TYPE, "types.email.retry.delay", 'only with backoff = "list"'),
    ("retry.delay = []", TYPE, "types.email.retry.delay", "1 to 100"),
    ('retry.delay = ["1s", "x"]', TYPE, "types.email.retry.delay", "such as"),
    ('retry.max_delay = "1s"', TYPE, "types.email.retry.max_delay", "at least retry.delay"),
    ("max_interruptions = 0", TYPE, "types.email.max_interruptions", "must be 1 to"),
    ("keep_dead.count = 0", TYPE, "types.email.keep_dead.count", "must be 1 to"),
    ("keep_done.age = 0", TYPE, "types.email.keep_done.age", "must be 1ms to"),
    ("[embedded]\nappendfsync = 'no'", "[scheduld]", "embedded.appendfsync", "everysec"),
    # types
    ("[types.Email]\nhandler = 'x'", "[types.email]", "types.Email", "not a name"),
    ('[types."a b"]\nhandler = "x"', "[types.email]", 'types."a b"', "not a name"),
    ("[types.sms]\n", "[types.email]", "types.sms.handler", "is missing"),
    ("types.sms = 5", "[scheduld]", "types.sms", "a table, not a whole number"),
    # filled in
    ('namespace = "${NOT_SET}"', SCHEDULD, "scheduld.namespace", "NOT_SET is not set"),
    ('namespace = "${SECRET} "', SCHEDULD, "scheduld.namespace", "is no name"),
    ('timezone = "${SECRET}"', SCHEDULD, "scheduld.timezone", "is no time zone"),
    ('lease = "${SECRET}"', SCHEDULD, "scheduld.lease", "is no duration"),
    ('isolation = "${SECRET}"', TYPE, "types.email.isolation", "must be"),
    ('retry.delay = ["${SECRET}"]', TYPE, "types.email.retry.delay", "is no duration"),
    ('retry.delay = ["${NOT_SET}"]', TYPE, "types.email.retry.delay[0]", "NOT_SET is not set"),
    ('options.key = "${file:/no/such}"', TYPE, "types.email.options.key", "No such file"),
    ('options.key = "${oh no"', TYPE, "types.email.options.key", "write $${"),
]


def mutated(line: str, before: str) -> tuple[str, int]:
    """Insert a line before the one that starts with `before`; return the text and its line."""
    lines = GOOD.splitlines()
    at = next(index for index, text in enumerate(lines) if text.startswith(before))
    return "\n".join([*lines[:at], line, *lines[at:]]), at + 1


@pytest.mark.parametrize(("line", "before", "path", "words"), MUTATIONS)
def test_each_mistake_is_told(
    tmp_path: Path, line: str, before: str, path: str, words: str
) -> None:
    """One mistake is one problem: its key path, its line, what is wrong, and no secret."""
    file = tmp_path / "scheduld.toml"
    text, number = mutated(line, before)
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, env=ENV)
    found = {problem.path: problem for problem in caught.value.problems}
    assert list(found) == [path]
    problem = found[path]
    assert words in problem.message
    assert problem.file == str(file)
    # A fault of two keys may stand at the one that is not there: then its table is meant.
    assert problem.line is not None
    assert abs(problem.line - number) <= 1
    assert SECRET not in str(caught.value)
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    ("line", "before", "path", "words"),
    [
        row
        for row in MUTATIONS
        if not row[2].startswith(("types", "log")) and "concurrency" not in row[2]
    ],
)
def test_clients_see_the_same(
    tmp_path: Path, line: str, before: str, path: str, words: str
) -> None:
    """Client commands refuse the same mistakes in what they read, with the same words."""
    file = tmp_path / "scheduld.toml"
    file.write_text(mutated(line, before)[0])
    with pytest.raises(ConfigError) as full:
        load(file, env=ENV)
    with pytest.raises(ConfigError) as light:
        client_settings(file, env=ENV)
    assert light.value.problems == full.value.problems


def test_unmutated_file_is_good(tmp_path: Path) -> None:
    """The file that the mistakes are put into has none itself."""
    file = tmp_path / "scheduld.toml"
    file.write_text(GOOD)
    assert list(load(file, env=ENV).types) == ["email"]


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    """Mistakes in many keys of several tables are all told by one error."""
    file = tmp_path / "scheduld.toml"
    file.write_text(
        """
        top = 1
        [scheduld]
        tiemout = "2s"
        lease = "5"
        namespace = "${NOT_SET}"
        redis_url = "http://localhost"
        [types.Email]
        run_timeout = nan
        retry = { attempts = true, dleay = "3s" }
        [types.sms]
        handler = "log"
        poll_timeout = "20s"
        concurrency = -1
        [types.sms.retry]
        backoff = "list"
        """
    )
    with pytest.raises(ConfigError) as caught:
        load(file, env=ENV)
    assert [(problem.line, problem.path) for problem in caught.value.problems] == [
        (2, "top"),
        (4, "scheduld.tiemout"),
        (5, "scheduld.lease"),
        (6, "scheduld.namespace"),
        (7, "scheduld.redis_url"),
        (8, "types.Email.handler"),
        (8, "types.Email"),
        (9, "types.Email.run_timeout"),
        (10, "types.Email.retry.attempts"),
        (10, "types.Email.retry.dleay"),
        (11, "types.sms.empty_poll_timeout"),
        (14, "types.sms.concurrency"),
        (16, "types.sms.retry.backoff"),
    ]


def test_each_type_needs_a_slot(tmp_path: Path) -> None:
    """Every type keeps one slot of its own, so there are at least as many slots as types."""
    file = tmp_path / "scheduld.toml"
    file.write_text("[scheduld]\nconcurrency = 1\n[types.a]\nhandler='a'\n[types.b]\nhandler='b'\n")
    with pytest.raises(ConfigError, match=r":2: scheduld.concurrency: must be at least .* 2"):
        load(file, env=ENV)


def test_a_bad_partner_is_no_conflict(tmp_path: Path) -> None:
    """A setting is not compared with one that is itself refused."""
    file = tmp_path / "scheduld.toml"
    file.write_text("[scheduld]\nlease = -1\nredis_timeout = '20s'\n[types.a]\nhandler='a'\n")
    for read in (load, client_settings):
        with pytest.raises(ConfigError) as caught:
            read(file, env=ENV)
        assert [problem.path for problem in caught.value.problems] == ["scheduld.lease"]
