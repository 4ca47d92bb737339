"""Ends the commands of a daemon that was killed: a tiny process that outlives it for that.

The kernel can end a child with its parent (PR_SET_PDEATHSIG), but only that one: of a script the
shell would die, and the program that does its work go on beside the next attempt. So a shell
script holds the end of a pipe, is told every process group that begins and ends, and when the
pipe breaks ends those that are left, as a cancelled run is ended.
"""

from __future__ import annotations

import contextlib
import os

import structlog

log = structlog.get_logger("scheduld.handler.command")
_SHELL = "/bin/sh"
# Deaf to signals that are meant for the daemon; its own end is the end of the pipe.
_SCRIPT = """
trap '' TERM INT HUP
groups=' '
while read -r mark group; do
    case $mark$groups in
        +*) groups="$groups$group " ;;
        -*" $group "*) groups="${groups%% $group *} ${groups#* $group }" ;;
    esac
done
for group in $groups; do kill -TERM "-$group"; done
for group in $groups; do sleep 2; break; done
for group in $groups; do kill -KILL "-$group"; done
"""


class Guard:
    """The process groups to be ended if this process is killed."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._pipe = -1
        self._pid = 0
        self._owner = 0
        self._is_absent = False

    def prepare(self) -> None:
        """Be there before the first group is, which nobody would end until then."""
        self._renew()

    def watch(self, group: int) -> None:
        """Have a group ended with this process; raises nothing."""
        self._groups.add(group)
        self._tell(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """Let a group be: it has ended."""
        self._groups.discard(group)
        self._tell(f"- {group}\n")

    def _renew(self) -> None:
        if self._owner != os.getpid():
            # The first time, or in a fork, whose commands are not those of its parent.
            self._pipe, self._owner = -1, os.getpid()
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
                {"PATH": "/usr/bin:/bin"},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setsid=True,
                setsigmask=[],
            )
            self._pipe, ours = ours, -1
            os.write(self._pipe, "".join(f"+ {group}\n" for group in self._groups).encode())
        except (OSError, NotImplementedError) as exc:
            self._is_absent = True
            log.warning("commands may outlive a daemon that is killed", error=str(exc))
        finally:
            for descriptor in (ours, theirs):
                if descriptor >= 0:
                    os.close(descriptor)


guard = Guard()
"""That of this process."""
