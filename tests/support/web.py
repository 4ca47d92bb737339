"""HTTP servers for tests: one that answers as it is told, and one that says exact bytes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiohttp import web

from scheduld.handlers.contract import Run

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

DUE = datetime(2026, 12, 24, 8, tzinfo=UTC)


def a_run(*, id: str = "t1", attempt: int = 1, due: datetime = DUE) -> Run:  # noqa: A002
    """A run of a task of type `hook`."""
    return Run(type="hook", id=id, attempt=attempt, fence=7, due=due)


@dataclass
class Got:
    """A request that arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class Hooks:
    """A server: what it got, and what it answers at each path (200 by default)."""

    url: str = ""
    port: int = 0
    got: list[Got] = field(default_factory=list)
    answers: dict[str, web.Response] = field(default_factory=dict)

    async def take(self, request: web.Request) -> web.Response:
        """Keep a request and answer it."""
        assert request.transport is not None
        headers = {name.lower(): value for name, value in request.headers.items()}
        port = request.transport.get_extra_info("peername")[1]
        body = await request.read()
        self.got.append(Got(request.method, request.path_qs, headers, body, port))
        answer = self.answers.get(request.path)
        if answer is None:
            return web.Response(text="thanks")
        return web.Response(status=answer.status, headers=answer.headers, body=answer.body)


@asynccontextmanager
async def hooks(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Hooks]:
    """Run a server on a free port."""
    told = Hooks()
    app = web.Application(client_max_size=10 * 1024**2)
    app.router.add_route("*", "/{rest:.*}", told.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, 0, ssl_context=tls)
    await site.start()
    told.port = runner.addresses[0][1]
    shown = f"[{host}]" if ":" in host else host
    told.url = f"{'https' if tls else 'http'}://{shown}:{told.port}"
    try:
        yield told
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(*parts: bytes, ends: bool = True) -> AsyncIterator[str]:
    """Run a server that says these bytes to whoever asks; without `ends` it then stays silent."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await reader.read(65_536)
        for part in parts:
            writer.write(part)
        if ends:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        for writer in writers:
            writer.close()
        server.close()
        await server.wait_closed()
