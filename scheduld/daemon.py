"""The daemon: a replica between the signals, systemd and the server it works with."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from scheduld import payload
from scheduld.clock import wall_ms
from scheduld.config.url import mask_url
from scheduld.engine.duty import Duty, ladders
from scheduld.engine.eventloop import new_event_loop
from scheduld.engine.loop import FIRST_PAUSE_S, LONGEST_PAUSE_S, wait_for
from scheduld.engine.outage import Outage
from scheduld.engine.presence import register
from scheduld.engine.replica import Replica
from scheduld.errors import OutcomeUnknown, ScheduldError, Unreachable
from scheduld.names import new_id
from scheduld.observe import masking
from scheduld.observe.logs import catch_strays, configure
from scheduld.observe.notify import Notifier
from scheduld.observe.secrets import masker_for
from scheduld.registry import notes, resolve, resolve_predicate
from scheduld.store.calls import Caller, NewTask, add
from scheduld.store.connect import join
from scheduld.store.keys import Keys
from scheduld.store.link import AsyncLink

if TYPE_CHECKING:
    from scheduld.config.settings import Config
    from scheduld.store.embedded import Membership

log = structlog.get_logger("scheduld.daemon")
EXIT_STUCK = 70
_EMBEDDED_WAIT_S = 10.0
_TELL_S = 1.0


def serve(config: Config, *, verbose: bool = False) -> int:
    """Run a daemon until a signal ends it; returns the exit code.

    SIGTERM or SIGINT: nothing more is claimed, runs may end within `shutdown_grace`, the rest
    goes back to due; a second signal ends the grace. 0 after a stop, 3 if the server can never
    be used (too old, data of a newer format), EXIT_STUCK if a handler blocked the event loop
    beyond its run_timeout and did not let go. Raises InvalidInput for a handler that does not
    load.
    """
    _open_streams()
    masking.install(masker_for(config))
    configure(config.log, verbose=verbose)
    catch_strays()
    duties = [
        Duty(kind, resolve(kind), resolve_predicate(kind), config.max_payload)
        for kind in config.types.values()
    ]
    return _run(Daemon(config, duties))


def _open_streams() -> None:
    """Lead standard streams that were closed to nowhere.

    Else the next sockets would get their numbers, and what is written to stderr.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _run(daemon: Daemon) -> int:
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        loop = runner.get_loop()
        main = loop.create_task(daemon.run())
        while not main.done():
            try:
                loop.run_until_complete(main)
            except (SystemExit, KeyboardInterrupt) as error:
                # asyncio lets these out of the loop, whichever task raised them.
                log.error("a handler raised this in a task of its own", error=repr(error))
        code = main.result()
        if daemon.has_stuck_runs:
            # Python would wait for them; their tasks were given back already.
            os._exit(code)
        return code


class Daemon:
    """One run of the daemon, from the first connection to the last verdict."""

    def __init__(
        self, config: Config, duties: list[Duty], notifier: Notifier | None = None
    ) -> None:
        self._config = config
        self._duties = duties
        self._notifier = notifier or Notifier()
        self._identity = new_id(wall_ms())
        self._keys = Keys(config.namespace)
        self._outage = Outage()
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._membership: Membership | None = None
        self._stuck_s = 0.0
        self.has_stuck_runs = False

    async def run(self) -> int:
        """Connect, work until told to stop, stop; returns the exit code."""
        self._handle_signals()
        try:
            url = await self._connect()
            if url is not None:
                await self._work(url)
        except ScheduldError as error:
            log.error("cannot start", error=error.message, hint=error.hint)
            return error.exit_code
        finally:
            if self._membership is not None:
                await asyncio.to_thread(self._membership.leave)
        log.info("stopped", replica=self._identity)
        return 0

    async def _work(self, url: str) -> None:
        replica = Replica(
            self._config,
            self._duties,
            url,
            self._identity,
            self._outage,
            on_stuck=self._is_stuck,
            feed=self._notifier.feed,
            feed_every_s=self._notifier.feed_every_s,
        )
        replica.start()
        log.info(
            "started",
            replica=self._identity,
            redis=mask_url(self._config.redis_url),
            namespace=self._config.namespace,
            types=" ".join(duty.name for duty in self._duties),
        )
        self._notifier.ready("working")
        beside = [asyncio.create_task(self._revive()), asyncio.create_task(_tell_plugins())]
        await self._stop.wait()
        log.info(
            "stopping",
            runs=replica.busy,
            grace_ms=self._config.shutdown_grace_ms,
            hint="a second signal ends the grace" if replica.busy else None,
        )
        self._notifier.stopping("finishing what runs")
        await replica.stop(self._hurry)
        for task in beside:
            task.cancel()
        self.has_stuck_runs = replica.has_stuck_runs

    async def _connect(self) -> str | None:
        """Wait for the server as long as it takes; None if a stop came first."""
        pause = FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                return await self._greet()
            except (Unreachable, OutcomeUnknown) as error:
                self._outage.trouble(error)
            self._notifier.waiting("waiting for Redis", more_s=pause + 30)
            await wait_for(self._stop, pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
        return None

    async def _greet(self) -> str:
        url, membership = await asyncio.to_thread(join, self._config, wait_s=_EMBEDDED_WAIT_S)
        self._membership = membership or self._membership
        link = AsyncLink(url, timeout_s=self._config.redis_timeout_ms / 1000)
        try:
            await link.greet(self._keys.format)
            # Before anybody hears that the daemon is ready: clients look here for types.
            names = [duty.name for duty in self._duties]
            with suppress(ScheduldError):  # a full server refuses it, and may yet drain
                await link.commands(*register(self._keys, names, ladders(self._duties)))
            await self._add_at_start(link)
        finally:
            await link.aclose()
        self._outage.fine()
        return url

    async def _add_at_start(self, link: AsyncLink) -> None:
        caller = Caller(self._keys, self._identity)
        for duty in self._duties:
            if duty.kind.at_start is not None:
                # The id is this start's: a repeat after a lost answer adds nothing.
                task_id = f"{self._identity}-start"
                data = payload.encode(dict(duty.kind.at_start))
                task = NewTask(task_id.encode(), data, task_id)
                type_keys = self._keys.type(duty.name)
                try:
                    await link.run(add(caller, type_keys, [task], on_conflict="keep"))
                except Unreachable as error:
                    log.error("at_start was not added", type=duty.name, error=error.message)

    async def _revive(self) -> None:
        """Start the embedded server again if it dies; no other server is ours to start."""
        while self._membership is not None:
            await self._outage.away.wait()
            try:
                await asyncio.to_thread(self._membership.ensure, wait_s=_EMBEDDED_WAIT_S)
            except ScheduldError as error:
                self._outage.trouble(error)
            await asyncio.sleep(LONGEST_PAUSE_S)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        loop.add_signal_handler(
            signal.SIGHUP, lambda: log.warning("a reload is not in this version: restart instead")
        )

    def _signalled(self) -> None:
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def _is_stuck(self, seconds: float) -> None:
        """Called from a thread while the loop is blocked; leases are not renewed any more."""
        is_new, self._stuck_s = seconds < self._stuck_s or not self._stuck_s, seconds
        is_end = seconds > self._config.lease_ms / 1000
        if is_new or is_end:
            # From a thread: the loop may be stuck in a log line that nobody reads, with its lock.
            telling = threading.Thread(target=self._tell_stuck, args=(is_end,), daemon=True)
            telling.start()
            telling.join(_TELL_S)
        if is_end:
            os._exit(EXIT_STUCK)

    def _tell_stuck(self, is_end: bool) -> None:
        if is_end:
            log.critical("the event loop is still blocked: the daemon ends")
            return
        log.critical("a handler blocks the event loop beyond its run_timeout")
        faulthandler.dump_traceback(file=sys.__stderr__ or sys.stderr)


async def _tell_plugins() -> None:
    """Warn of installed plug-ins that are not what they claim; no start waits for the search."""
    for text in await asyncio.to_thread(notes):
        log.warning(text)
