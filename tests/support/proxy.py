"""A fault proxy in front of a server's unix socket.

`mode` applies to connections that are open and to new ones: `pass`; `reset` (all end at
once); `refuse` (nobody listens); `blackhole` (requests are swallowed); `half` (requests go
through, answers are dropped); `lag` (answers come `lag_s` late); `hold` (answers to script
calls wait until the mode changes, wake-ups pass). Connections that have sent the bytes of
`spared` are never disturbed, except by `reset` and `refuse`.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Self

Mode = Literal["pass", "reset", "refuse", "blackhole", "half", "lag", "hold"]


@dataclass(eq=False)
class _Pair:
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    scripts: bool = False
    spared: bool = False
    pumps: list[asyncio.Task[None]] = field(default_factory=list)

    def close(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()


class Proxy:
    """Forwards to the server at `url` (unix://PATH); its own address is `self.url`."""

    def __init__(self, url: str, *, lag_s: float = 0.05, spared: str | None = None) -> None:
        self._target = url.removeprefix("unix://")
        self._folder = TemporaryDirectory(prefix="scheduld-")
        self._path = str(Path(self._folder.name) / "p.sock")
        self._lag_s = lag_s
        self._spared = spared.encode() if spared else None
        self._pairs: set[_Pair] = set()
        self._server: asyncio.Server | None = None
        self._released = asyncio.Event()
        self.url = "unix://" + self._path
        self.mode: Mode = "pass"
        self.dropped = 0
        """Pieces of requests or answers that were swallowed or held back."""

    async def become(self, mode: Mode) -> None:
        """Change the mode; held answers go on, those of `blackhole` and `half` are lost."""
        lossy = self.mode in ("blackhole", "half")
        self.mode = mode
        self._released.set()
        self._released = asyncio.Event()
        if mode in ("reset", "refuse") or (lossy and mode == "pass"):
            await self._cut()
        if mode == "refuse":
            await self._stop_listening()
        elif self._server is None:
            await self._listen()

    async def _listen(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
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
        if self.mode in ("reset", "refuse"):
            writer.transport.abort()
            return
        try:
            answers, server = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.transport.abort()
            return
        pair = _Pair(writer, server)
        self._pairs.add(pair)
        pair.pumps = [
            asyncio.create_task(self._requests(pair, reader)),
            asyncio.create_task(self._answers(pair, answers)),
        ]
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pair.pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pair.pumps:
            pump.cancel()
        pair.close()
        self._pairs.discard(pair)

    async def _requests(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                pair.scripts = pair.scripts or b"EVALSHA" in data
                if self._spared is not None and self._spared in data:
                    pair.spared = True
                if self.mode == "blackhole" and not pair.spared:
                    self.dropped += 1
                    continue
                pair.server.write(data)
                await pair.server.drain()

    async def _answers(self, pair: _Pair, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if self.mode == "half" and not pair.spared:
                    self.dropped += 1
                    continue
                if self.mode == "lag":
                    await asyncio.sleep(self._lag_s)
                elif self.mode == "hold" and pair.scripts:
                    self.dropped += 1
                    await self._released.wait()
                pair.client.write(data)
                await pair.client.drain()

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop_listening()
        await self._cut()
        self._folder.cleanup()
