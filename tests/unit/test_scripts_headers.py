"""Every script: its header says what its body and its caller do."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import scheduld
from scheduld.model import TaskType, Verdict, VerdictKind
from scheduld.schedule import Schedule
from scheduld.store import calls, croncalls, notecalls, usercalls
from scheduld.store.calls import Caller, ClaimRequest, NewTask
from scheduld.store.croncalls import Definition, PastTick, Tick
from scheduld.store.keys import Keys
from scheduld.store.notecalls import Note
from scheduld.store.scripts import load, read_lua, script_names
from scheduld.store.usercalls import Edit

if TYPE_CHECKING:
    from types import ModuleType

    from scheduld.store.calls import Call
    from scheduld.store.keys import TypeKeys

PACKAGE = Path(scheduld.__file__).parent
SCRIPTS = script_names()
INCLUDES = sorted(path.stem for path in (PACKAGE / "store/lua/include").glob("*.lua"))
ALLOW_OOM = {
    *("claim", "finish", "start", "renew", "recover", "cancel", "prune", "audit"),
    *("pause", "resume", "run_now", "purge", "note"),
    *("cron_pause", "cron_resume", "cron_skips", "cron_remove", "cron_move"),
    *("cron_raise_marks", "cron_park"),
}
NO_WRITES = {"read", "fields", "walk", "cron_read"}
# Which typed functions are not in `calls`.
USERS = {
    *("cancel", "edit", "fields", "pause", "purge", "read", "requeue", "resume", "run_now", "walk"),
}
MOST_LINES = 75
DECLARED = re.compile(r"^-- (KEYS|ARGV)\[(\d+)(\.\.)?\] +(\w+)", re.MULTILINE)
USED = re.compile(r"\b(KEYS|ARGV)\[([^\]]+)\]")
# What follows after the declared arguments is read by its place, in a loop over `count`.
REST = {
    *(
        (name, "KEYS", "6 + index")
        for name in ("add", "audit", "fields", "note", "read", "renew", "requeue", "start")
    ),
    *(("add", "ARGV", f"from + {number}") for number in range(1, 6)),
    ("add", "ARGV", "9 + count * 5 + index"),
    ("audit", "ARGV", "8 + index"),
    ("requeue", "ARGV", "8 + index"),
    ("read", "ARGV", "7 + index"),
    ("note", "ARGV", "at"),
    *(("note", "ARGV", f"at + {number}") for number in range(1, 5)),
    *((name, "ARGV", f"{at} + index * 2") for name in ("renew", "start") for at in (7, 8)),
    *((f"cron_{name}", "KEYS", "6 + index") for name in ("define", "raise_marks", "read", "tick")),
    *(("cron_define", "ARGV", f"at + {number}") for number in range(1, 13)),
    *(("cron_tick", "ARGV", f"at + {number}") for number in range(1, 12)),
    *(("cron_raise_marks", "ARGV", f"{at} + index * 2") for at in (6, 7)),
    ("cron_read", "ARGV", "7 + index"),
    *(("cron_backfill", "ARGV", at) for at in ("at", "at + 1", "at + 2")),
}
SETTLE_REST = {
    ("KEYS", "first_key + index - 1"),
    ("KEYS", "first_key + plain_count + index - 1"),
    ("ARGV", "at"),
    *(("ARGV", f"at + {number}") for number in range(1, 8)),
}
LOG_REST = {("ARGV", "place + offset")}


@dataclass(frozen=True)
class Parts:
    """A script's text: its first line, its header, and its code without comments."""

    shebang: str
    header: str
    body: str


def parts(path: str) -> Parts:
    """Split a Lua file after the comments that it begins with."""
    lines = read_lua(path).splitlines()
    first = lines.pop(0) if lines[0].startswith("#!") else ""
    end = next(index for index, line in enumerate(lines) if not line.startswith("--"))
    code = [re.sub(r"--.*$", "", line) for line in lines[end:]]
    return Parts(first, "\n".join(lines[:end]), "\n".join(code))


def includes_of(name: str) -> list[str]:
    """Names of the files that a script includes."""
    (line,) = re.findall(r"^-- @include (.+)$", read_lua(f"{name}.lua"), re.MULTILINE)
    return str(line).split()


def cron_calls(caller: Caller, job: TypeKeys) -> dict[str, Call[Any]]:
    """Call the typed functions of schedules with one of everything."""
    definition = Definition(Schedule(name="n", type="job", cron="* * * * *"), "config")
    return {
        "cron_backfill": croncalls.backfill(caller, job, "n", [PastTick(1, 2, b"x")]),
        "cron_define": croncalls.define(caller, job, [definition]),
        "cron_move": croncalls.move(caller, job, "n", to="other"),
        "cron_orphan": croncalls.orphan(caller, job, "n", after_ms=9),
        "cron_park": croncalls.park(caller, job, "n", digest="d", why=""),
        "cron_pause": croncalls.pause(caller, job, "n", reason="", who=""),
        "cron_raise_marks": croncalls.raise_marks(caller, job, [("n", 9)]),
        "cron_read": croncalls.read(caller, job, ["n"]),
        "cron_remove": croncalls.remove(caller, job, "n", reason=""),
        "cron_resume": croncalls.resume(caller, job, "n"),
        "cron_skips": croncalls.skips(caller, job, "n"),
        "cron_tick": croncalls.tick(caller, job, [Tick("n", "d", 1)]),
        "cron_trigger": croncalls.trigger(caller, job, "n", raw_id=b"x"),
    }


def home_of(name: str) -> ModuleType:
    """The module of a script's typed function."""
    if name.startswith("cron_"):
        return croncalls
    return notecalls if name == "note" else usercalls if name in USERS else calls


def a_call(name: str) -> Call[Any]:
    """Call the typed function of a script with one of everything."""
    keys = Keys("ns")
    caller, job = Caller(keys, "r1"), keys.type("job")
    kind = TaskType(name="job", handler="log")
    ends = (Verdict(b"x", 7, VerdictKind.DONE), Verdict(b"y", 7, VerdictKind.RELEASE))
    made: dict[str, Call[Any]] = {
        **cron_calls(caller, job),
        "add": calls.add(caller, job, [NewTask(b"x", b"{}", "T")], on_conflict="error"),
        "audit": calls.audit(caller, job, [b"x"], mend=True),
        "cancel": usercalls.cancel(caller, job, b"x"),
        "claim": calls.claim(caller, job, kind, ClaimRequest(1, 1, ends, 0), lease_ms=9),
        "edit": usercalls.edit(caller, job, b"x", Edit("T")),
        "fields": usercalls.fields(caller, job, [b"x"], "error"),
        "finish": calls.finish(caller, job, ends),
        "note": notecalls.note(caller, job, [Note(b"x", 7, "1", 0, ["{}"])]),
        "pause": usercalls.pause(caller, job, reason="", who=""),
        "prune": calls.prune(caller, job, kind, limit=1),
        "purge": usercalls.purge(caller, job, state="done", before_ms=None, offset=0, limit=1),
        "read": usercalls.read(caller, job, [b"x"]),
        "recover": calls.recover(caller, job, kind, lease_ms=9, bound_ms=0, limit=1),
        "renew": calls.renew(caller, job, [(b"x", 7)], lease_ms=9),
        "requeue": usercalls.requeue(caller, job, [b"x"]),
        "resume": usercalls.resume(caller, job),
        "run_now": usercalls.run_now(caller, job, b"x"),
        "walk": usercalls.walk(caller, job, "due", None, limit=1),
        "start": calls.start(caller, job, [(b"x", 7)]),
    }
    return made[name]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_numbers_of_a_header_are_without_gaps(name: str) -> None:
    """A header goes on where the common keys and arguments end, and skips nothing."""
    common = [
        (kind, int(number))
        for kind, number, _, _ in DECLARED.findall(parts("include/type.lua").header)
    ]
    own = [
        (kind, int(number)) for kind, number, _, _ in DECLARED.findall(parts(f"{name}.lua").header)
    ]
    for kind in ("KEYS", "ARGV"):
        numbers = [number for found, number in [*common, *own] if found == kind]
        assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_header_tells_what_is_returned(name: str) -> None:
    """Purpose, common keys, and every answer of the body stand in the header."""
    text = parts(f"{name}.lua")
    assert re.match(r"-- [A-Z].+[.;]", text.header)
    assert "-- KEYS[1..6], ARGV[1..6]: see include/type.lua" in text.header
    assert re.search(r"^-- Returns \{0, now µs", text.header, re.MULTILINE)
    assert "{-1, now µs} too late" in text.header
    returned = re.findall(r"^ *return \{(-?\d), now_us", text.body, re.MULTILINE)
    for code in returned:
        assert f"{{{code}, now µs" in text.header
    assert text.body.rstrip().splitlines()[-1].startswith("return {0, now_us, ")


@pytest.mark.parametrize("name", [*SCRIPTS, "include/type"])
def test_what_is_declared_is_bound_and_used_by_its_name(name: str) -> None:
    """Each key and argument has a local of its own name; no other place reads them by number."""
    text = parts(f"{name}.lua")
    bindings = bound(text.body)
    for kind, number, rest, word in DECLARED.findall(text.header):
        if rest:
            continue
        assert bindings.pop((kind, int(number))) == word
        body = whole_source() if name == "include/type" else text.body
        assert len(re.findall(rf"\b{word}\b", body)) > 1, f"{word} is not used"
    assert not bindings, "bound, but not declared"


def bound(body: str) -> dict[tuple[str, int], str]:
    """Which local each key and argument is bound to, at the start of the body."""
    found: dict[tuple[str, int], str] = {}
    for names, values in re.findall(r"^local ([\w, ]+) = (.*(?:KEYS|ARGV)\[\d.*)$", body, re.M):
        pairs = zip(names.split(", "), values.split(", "), strict=True)
        for word, value in pairs:
            match = re.fullmatch(r"(?:tonumber\()?(KEYS|ARGV)\[(\d+)\]\)?", value)
            assert match, value
            found[match[1], int(match[2])] = word
    return found


def whole_source() -> str:
    """Join the bodies of all Lua files."""
    files = [*SCRIPTS, *(f"include/{name}" for name in INCLUDES)]
    return "\n".join(parts(f"{name}.lua").body for name in files)


@pytest.mark.parametrize("name", SCRIPTS)
def test_only_documented_loops_read_what_is_not_declared(name: str) -> None:
    """Apart from the bindings only the loops over the rest index KEYS and ARGV."""
    body = parts(f"{name}.lua").body
    places = {(name, kind, at) for kind, at in USED.findall(body) if not at.isdigit()}
    assert places == {place for place in REST if place[0] == name}
    numbered = [(kind, int(at)) for kind, at in USED.findall(body) if at.isdigit()]
    assert sorted(numbered) == sorted(bound(body)), "each is read once, at its binding"


@pytest.mark.parametrize("name", INCLUDES)
def test_includes_use_no_numbers(name: str) -> None:
    """Shared Lua sees the common locals only; verdicts are the one list it reads itself."""
    text = parts(f"include/{name}.lua")
    used = set(USED.findall(text.body))
    if name == "type":
        assert used == {(kind, str(number)) for kind in ("KEYS", "ARGV") for number in range(1, 7)}
    else:
        assert used == {"settle_plain": SETTLE_REST, "log": LOG_REST}.get(name, set())


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_caller_passes_what_the_header_declares(name: str) -> None:
    """The typed function of the script's name fills the declared places, in their order."""
    assert callable(getattr(home_of(name), name.removeprefix("cron_")))
    call, script = a_call(name), load(name)
    assert call.script is script
    rest = re.search(r"^-- KEYS\[\d+\.\.\]", script.source.decode(), re.MULTILINE)
    # Of hashes the header declares the first; here claim and finish carry one of each kind.
    assert len(call.keys) == len(script.keys) + (name in {"claim", "finish"})
    assert call.keys[:6] == Keys("ns").type("job").common()
    assert script.keys[:6] == ("due", "leased", "done", "dead", "meta", "events")
    named = dict(zip(script.args, call.args, strict=False))
    assert (named["prefix"], named["type_name"], named["wake"]) == (
        "ns:{job}:task:",
        "job",
        "ns:wake",
    )
    assert (named["given_now"], named["valid_until"], named["node"]) == ("", "", "r1")
    assert script.args[calls.DEADLINE] == "valid_until"
    counted = named.get("count", named.get("verdict_count", 0))
    tail = len(call.args) - len(script.args)
    sizes = {
        "add": 5,
        "finish": 8,
        "claim": 8,
        "renew": 2,
        "start": 2,
        "audit": 1,
        "read": 1,
        "requeue": 1,
        "note": 6,
        "cron_backfill": 3,
        "cron_define": 12,
        "cron_raise_marks": 2,
        "cron_read": 1,
        "cron_tick": 11,
    }
    assert tail == int(counted) * sizes.get(name, 0) + int(named.get("plain_count", 0))
    # The tasks of a backfill are new: their keys follow from their ids.
    assert bool(rest) == ((tail > 0 and name != "cron_backfill") or name == "fields"), (
        "hashes of tasks that the caller knows are in KEYS"
    )


def test_every_script_has_a_caller_and_every_caller_its_arguments() -> None:
    """A call with other argument names than the header's is a programming error, told at once."""
    keys = Keys("ns")
    caller, job = Caller(keys, "r1"), keys.type("job")
    with pytest.raises(TypeError, match=r"run_now\.lua takes \('id',\)"):
        caller.call("run_now", job, lambda _: None, args={"name": b"x"})
    with pytest.raises(FileNotFoundError):
        load("unknown")


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_first_line_says_what_memory_limits_do(name: str) -> None:
    """Scripts that let work go on or end run without memory to spare; those that add do not."""
    shebang = parts(f"{name}.lua").shebang
    if name in ALLOW_OOM:
        assert shebang == "#!lua flags=allow-oom"
    else:
        assert shebang == ("#!lua flags=no-writes" if name in NO_WRITES else "#!lua")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_short_and_loads_whole(name: str) -> None:
    """One state change a file; the loaded text begins with its flags and holds its includes."""
    text = read_lua(f"{name}.lua")
    assert len(text.splitlines()) <= MOST_LINES
    script = load(name)
    assert script.source.startswith(text.splitlines()[0].encode() + b"\n")
    assert script.source.count(b"#!lua") == 1
    assert hashlib.sha1(script.source).hexdigest() == script.sha
    assert "@include type" in text
    for include in includes_of(name):
        assert read_lua(f"include/{include}.lua") in script.source.decode()


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_includes_what_it_uses_and_no_more(name: str) -> None:
    """Every included file defines something that the script, or a file included later, uses."""
    listed = includes_of(name)
    bodies = [parts(f"include/{include}.lua").body for include in listed]
    bodies.append(parts(f"{name}.lua").body)
    for position, include in enumerate(listed):
        defined = re.findall(r"^local function (\w+)", bodies[position], re.MULTILINE)
        after = "\n".join(bodies[position + 1 :])
        assert include in ("type", "guard") or any(
            re.search(rf"\b{word}\(", after) for word in defined
        )


def test_every_include_is_included() -> None:
    """No shared file is left over."""
    assert set(INCLUDES) == {include for name in SCRIPTS for include in includes_of(name)}


@pytest.mark.parametrize("name", [*SCRIPTS, *(f"include/{name}" for name in INCLUDES)])
def test_no_script_searches_the_keyspace(name: str) -> None:
    """KEYS and SCAN never run inside a script, nor does cjson touch what users stored."""
    body = parts(f"{name}.lua").body
    for command in re.findall(r"redis\.p?call\(\s*'(\w+)'", body):
        assert command == command.upper()
        assert command not in {"KEYS", "SCAN", "SMEMBERS", "EVAL", "SELECT", "FLUSHDB"}
    assert len(re.findall(r"redis\.p?call\(", body)) == len(
        re.findall(r"redis\.p?call\(\s*'[A-Z]+'", body)
    )
    assert "cjson" not in body
    assert not re.search(r"redis\.call\('PUBLISH'", body), "a wake-up may not fail the script"
