"""Ends the commands of a daemon that was killed: a tiny process that outlives it for that.

The kernel can end a child with its parent (PR_SET_PDEATHSIG), but only that one: of a script the
shell would die, and the program that does its work go on beside the next attempt. So a shell
script holds the end of a pipe, is told every run before its program starts and after it has
ended, and when the pipe breaks ends what is left, as a cancelled run is ended.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from dataclasses import dataclass

import structlog

log = structlog.get_logger("scheduld.handler.command")
_SHELL = "/bin/sh"
_VARIABLE = "_SCHEDULD_GUARD"
# Deaf to signals that are meant for the daemon; its own end is the end of the pipe. That comes
# after every fork of the daemon has become a program, since a fork holds the pipe too. A run
# whose group the daemon had no time to tell is found by its environment (Linux). Of the pids
# found only leaders of groups are ended, with their groups; for others kill fails.
_SCRIPT = """
trap '' TERM INT HUP
runs=' '
while read -r mark run group; do
    case $runs in *" $run:"*)
        rest=${runs#* "$run":}
        runs="${runs%% "$run":*} ${rest#* }"
    esac
    case $mark in +) runs="$runs$run:$group "; esac
done
end() {
    for entry in $runs; do
        group=${entry#*:}
        if [ "$group" = 0 ]; then
            for file in $(grep -Fls "$MARK${entry%%:*}." /proc/[0-9]*/environ); do
                group=${file%/environ}
                kill "-$1" "-${group#/proc/}"
            done
        else
            kill "-$1" "-$group"
        fi
    done
}
end TERM
[ "$runs" = ' ' ] || sleep 2
end KILL
"""


@dataclass(frozen=True, slots=True)
class Expected:
    """A run that was announced; its program is found by what must be in its environment."""

    number: int
    environment: dict[str, str]


class Guard:
    """The runs of commands to be ended if this process is killed."""

    def __init__(self) -> None:
        self._runs: dict[int, int] = {}
        self._numbers = itertools.count(1)
        self._token = ""
        self._pipe = -1
        self._pid = 0
        self._is_absent = False

    def expect(self) -> Expected:
        """Announce a run whose program is about to start; raises nothing."""
        self._renew()
        number = next(self._numbers)
        self._runs[number] = 0
        self._tell(f"+ {number} 0\n")
        return Expected(number, {_VARIABLE: f"{self._token}-{number}."})

    def watch(self, run: Expected, group: int) -> None:
        """Tell the process group of a run that was announced; raises nothing."""
        self._runs[run.number] = group
        self._tell(f"+ {run.number} {group}\n")

    def forget(self, run: Expected) -> None:
        """Let a run be: it has ended, or did not start."""
        self._runs.pop(run.number, None)
        self._tell(f"- {run.number}\n")

    def let_go(self) -> None:
        """Forget all, in a copy of the process: its parent's runs are not its own.

        While it held the pipe, the end of its parent would not be seen.
        """
        if self._pipe >= 0:
            os.close(self._pipe)
        self._runs.clear()
        self._pipe, self._token = -1, ""

    def _renew(self) -> None:
        if not self._token:
            self._token = os.urandom(8).hex()
        if self._pipe < 0 and not self._is_absent:
            self._start()

    def _tell(self, line: str) -> None:
        if self._pipe >= 0:
            try:
                os.write(self._pipe, line.encode())
            except BlockingIOError:
                pass  # it stands still; the loop must not
            except OSError:
                self._bury()
                self._renew()

    def _bury(self) -> None:
        os.close(self._pipe)
        self._pipe = -1
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)

    def _start(self) -> None:
        ours, theirs = -1, -1
        try:
            theirs, ours = os.pipe()
            os.set_blocking(ours, False)
            self._pid = os.posix_spawn(
                _SHELL,
                ["sh", "-c", _SCRIPT, "scheduld-guard"],
                {"PATH": "/usr/bin:/bin", "MARK": f"{_VARIABLE}={self._token}-"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setsid=True,
                setsigmask=[],
            )
            self._pipe, ours = ours, -1
            lines = [f"+ {number} {group}\n" for number, group in self._runs.items()]
            os.write(self._pipe, "".join(lines).encode())
        except (OSError, NotImplementedError) as exc:
            self._is_absent = True
            log.warning("commands may outlive a daemon that is killed", error=str(exc))
        finally:
            for descriptor in (ours, theirs):
                if descriptor >= 0:
                    os.close(descriptor)


guard = Guard()
"""That of this process."""
os.register_at_fork(after_in_child=guard.let_go)
