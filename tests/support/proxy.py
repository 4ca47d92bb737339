"""A fault proxy in front of a server's unix socket or TCP port.

`mode` applies to connections that are open and to new ones:

pass        all goes through
reset       all connections end at once (over TCP by RST), new ones as well
refuse      the same, and nobody listens
closed      the server's side seems to have ended: no answers but their end, requests go nowhere
blackhole   connections are taken, and what is asked is lost
half        requests are carried out, their answers are lost
stuck       nothing moves in either direction, and all of it arrives when that ends
lag         answers come `lag_s` late
jitter      requests and answers come late, by up to twice `lag_s`
trickle     answers come in `TRICKLE` bytes every `lag_s`
torn        the next answer of a connection is cut in its middle, and the connection with it
stalled     the same, but the connection stays and is silent
hold        answers to script calls wait until the mode changes, wake-ups pass

Connections that have sent the bytes of `spared` are never disturbed, except by `reset`,
`refuse` and `closed`. After a mode that has lost bytes no connection goes on.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Self, get_args
from urllib.parse import urlsplit

Mode = Literal[
    "pass",
    "reset",
    "refuse",
    "closed",
    "blackhole",
    "half",
    "stuck",
    "lag",
    "jitter",
    "trickle",
    "torn",
    "stalled",
    "hold",
]
MODES: tuple[Mode, ...] = get_args(Mode)
_LOSSY = ("closed", "blackhole", "half", "torn", "stalled")
_REFUSED = ("reset", "refuse")
TRICKLE = 2
_NO_LINGER = struct.pack("ii", 1, 0)
_PIECE = 65536


@dataclass(eq=False)
class _Pair:
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    scripts: bool = False
    spared: bool = False
    cut: bool = False
    pumps: list[asyncio.Task[None]] = field(default_factory=list)

    def close(self) -> None:
        for writer in (self.client, self.server):
            _abort(writer)


class Proxy:
    """Forwards to the server at `url` (unix://PATH or redis://HOST:PORT); its own is `self.url`.

    It listens as the server does, or on a TCP port if `tcp`. `seed`: of `jitter`.
    """

    def __init__(
        self,
        url: str,
        *,
        lag_s: float = 0.05,
        spared: str | None = None,
        tcp: bool = False,
        seed: int = 0,
    ) -> None:
        self._target = url
        self._folder = TemporaryDirectory(prefix="scheduld-")
        self._path = str(Path(self._folder.name) / "p.sock")
        self._port = 0
        self._is_tcp = tcp or not url.startswith("unix://")
        self._lag_s = lag_s
        self._chance = random.Random(seed)
        self._spared = spared.encode() if spared else None
        self._pairs: set[_Pair] = set()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None]
        self._serving: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self.url = "unix://" + self._path
        self.mode: Mode = "pass"
        self.dropped = 0
        """Pieces of requests or answers that were swallowed, cut or held back."""
        self.accepted = 0
        """Connections that were taken, those included that were cut at once."""

    async def become(self, mode: Mode) -> None:
        """Change the mode; what was held goes on, what was lost is lost."""
        lossy = self.mode in _LOSSY
        self.mode = mode
        self._changed.set()
        self._changed = asyncio.Event()
        if mode in _REFUSED or (lossy and mode == "pass"):
            await self._cut()
        if mode == "closed":
            for pair in self._pairs:
                self._close_half(pair)
        if mode == "refuse":
            await self._stop_listening()
        elif self._listener is None:
            self._listen()

    def _listen(self) -> None:
        listener = socket.socket(socket.AF_INET if self._is_tcp else socket.AF_UNIX)
        if self._is_tcp:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", self._port))
            self._port = listener.getsockname()[1]
            self.url = f"redis://127.0.0.1:{self._port}"
        else:
            listener.bind(self._path)
        listener.listen(100)
        listener.setblocking(False)
        self._listener = listener
        # Not asyncio's server: closed while it accepts, it leaves the new socket open.
        self._accepting = asyncio.create_task(self._accept(listener))

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            link, _ = await loop.sock_accept(listener)
            try:
                reader, writer = await asyncio.open_connection(sock=link)
            except BaseException:  # such as the cancellation at the end of the listening
                link.close()
                raise
            self.accepted += 1
            serving = asyncio.create_task(self._serve(reader, writer))
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)

    async def _stop_listening(self) -> None:
        if self._listener is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
            self._listener.close()
            self._listener = None
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    async def _cut(self) -> None:
        pumps = [pump for pair in self._pairs for pump in pair.pumps]
        for pair in list(self._pairs):
            pair.close()
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode in _REFUSED:
            _abort(writer)
            return
        try:
            answers, server = await self._connect()
        except OSError:
            _abort(writer)
            return
        pair = _Pair(writer, server)
        if self.mode in _REFUSED:
            # The mode has changed meanwhile, which ended the pairs that there were.
            pair.close()
            return
        self._pairs.add(pair)
        pair.pumps = [
            asyncio.create_task(self._requests(pair, reader)),
            asyncio.create_task(self._answers(pair, answers)),
        ]
        if self.mode == "closed":
            self._close_half(pair)
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pair.pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pair.pumps:
            pump.cancel()
        pair.close()
        self._pairs.discard(pair)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._target.startswith("unix://"):
            return await asyncio.open_unix_connection(self._target.removeprefix("unix://"))
        place = urlsplit(self._target)
        return await asyncio.open_connection(place.hostname, place.port)

    def _close_half(self, pair: _Pair) -> None:
        with suppress(OSError, RuntimeError):
            pair.client.write_eof()

    async def _requests(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                pair.scripts = pair.scripts or b"EVALSHA" in data
                if self._spared is not None and self._spared in data:
                    pair.spared = True
                mode = "pass" if pair.spared else self.mode
                if mode in ("blackhole", "closed") or pair.cut:
                    self.dropped += 1
                    continue
                if mode == "stuck":
                    await self._held()
                elif mode == "jitter":
                    await asyncio.sleep(self._chance.uniform(0, 2 * self._lag_s))
                pair.server.write(data)
                await pair.server.drain()

    async def _answers(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                mode = "pass" if pair.spared else self.mode
                if mode in ("half", "blackhole", "closed") or pair.cut:
                    self.dropped += 1
                    continue
                if mode == "trickle":
                    await self._trickle(pair, data)
                    continue
                if mode in ("torn", "stalled"):
                    pair.cut = True
                    self.dropped += 1
                    pair.client.write(data[: len(data) // 2])
                    await pair.client.drain()
                    if mode == "torn":
                        # Not by RST, which would take the half that was sent with it.
                        pair.client.close()
                        return
                    continue
                await self._delay(mode, pair)
                pair.client.write(data)
                await pair.client.drain()

    async def _delay(self, mode: str, pair: _Pair) -> None:
        if mode == "lag":
            await asyncio.sleep(self._lag_s)
        elif mode == "jitter":
            await asyncio.sleep(self._chance.uniform(0, 2 * self._lag_s))
        elif mode == "stuck" or (mode == "hold" and pair.scripts):
            await self._held()

    async def _held(self) -> None:
        self.dropped += 1
        await self._changed.wait()

    async def _trickle(self, pair: _Pair, data: bytes) -> None:
        """Pass a few bytes at a time, until the mode changes: then the rest at once."""
        while data and self.mode == "trickle":
            pair.client.write(data[:TRICKLE])
            await pair.client.drain()
            data = data[TRICKLE:]
            await asyncio.sleep(self._lag_s)
        pair.client.write(data)
        await pair.client.drain()

    async def __aenter__(self) -> Self:
        self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop_listening()
        await self._cut()
        while self._serving:
            await asyncio.wait(set(self._serving))
            await asyncio.sleep(0)
        self._folder.cleanup()


class ProxyThread:
    """A Proxy with a thread and an event loop of its own, for tests without a loop."""

    def __init__(self, url: str, *, lag_s: float = 0.05, tcp: bool = False, seed: int = 0) -> None:
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._thread.start()

        async def make() -> Proxy:
            return await Proxy(url, lag_s=lag_s, tcp=tcp, seed=seed).__aenter__()

        self._proxy = asyncio.run_coroutine_threadsafe(make(), self._loop).result(10)

    @property
    def url(self) -> str:
        """Its address."""
        return self._proxy.url

    @property
    def dropped(self) -> int:
        """What Proxy.dropped counts."""
        return self._proxy.dropped

    def become(self, mode: Mode) -> None:
        """Change the mode; it holds when this returns."""
        asyncio.run_coroutine_threadsafe(self._proxy.become(mode), self._loop).result(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._proxy.__aexit__(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._runner.close()


def _abort(writer: asyncio.StreamWriter) -> None:
    """End a connection at once; over TCP the other side gets RST, not an orderly end."""
    link = writer.get_extra_info("socket")
    if link is not None and link.family != socket.AF_UNIX:
        with suppress(OSError):
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
