"""Options that many commands share, and the client that they lead to."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduld.cli.completing import files, states, task_refs, type_names
from scheduld.cli.output import note
from scheduld.duration import parse_duration_ms
from scheduld.errors import OutcomeUnknown, Unreachable
from scheduld.names import check_id, check_name, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scheduld.client.blocking import Client
    from scheduld.config.settings import ClientSettings

F = TypeVar("F", bound="Callable[..., Any]")
_META = "scheduld."


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    # The meta is shared by group and command; what stands after the command comes last.
    if value is not None and value is not False:
        ctx.meta[f"{_META}{param.name}"] = value
    return value


def _wait(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None:
        parse_duration_ms(value, what="--wait")
    kept_value: str | None = _keep(ctx, param, value)
    return kept_value


CONFIG = click.option(
    "--config",
    metavar="PATH",
    expose_value=False,
    callback=_keep,
    shell_complete=files,
    help="Config file; default: $SCHEDULD_CONFIG, ./scheduld.toml, ./config/scheduld.toml, "
    "/etc/scheduld/scheduld.toml.",
)
REDIS_URL = click.option(
    "--redis-url",
    metavar="URL",
    expose_value=False,
    callback=_keep,
    help='"embedded", redis://, rediss:// or unix://; default: $SCHEDULD_REDIS_URL, or the '
    "config's. A password is better kept in the variable: all users see command lines.",
)
_NAMESPACE = click.option(
    "--namespace",
    metavar="NAME",
    expose_value=False,
    callback=_keep,
    help="First part of all keys; default: the config's.",
)
_WAIT = click.option(
    "--wait",
    metavar="DURATION",
    expose_value=False,
    callback=_wait,
    help="How long to wait while Redis is away; default: 10s.",
)
JSON = click.option(
    "--json", is_flag=True, expose_value=False, callback=_keep, help="Print JSON, errors too."
)


TYPE = click.option(
    "--type", "type_name", metavar="TYPE", shell_complete=type_names, help="Of this type only."
)
STATE = click.option(
    "--state",
    metavar="STATE",
    shell_complete=states,
    help="In this state only: scheduled running done cancelled dead.",
)
REF = click.argument("ref", metavar="TYPE/ID", shell_complete=task_refs)


def _stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


COMMON = _stack(CONFIG, REDIS_URL, _NAMESPACE, _WAIT, JSON)
"""Decorator: the options of a command that talks to Redis and prints data."""


@dataclass(frozen=True, slots=True)
class Common:
    """What was said by the shared options, before or after the command."""

    config: str | None = None
    redis_url: str | None = None
    namespace: str | None = None
    wait: str = "10s"
    json: bool = False


def kept(ctx: click.Context) -> dict[str, Any]:
    """Return the shared options that were given, by name."""
    return {
        key.removeprefix(_META): value for key, value in ctx.meta.items() if key.startswith(_META)
    }


def common() -> Common:
    """Return what the shared options of the running command say."""
    return Common(**kept(click.get_current_context()))


@dataclass(frozen=True, slots=True)
class Session:
    """A client (which connects at its first call), and the settings it was made from."""

    client: Client
    settings: ClientSettings

    def task_named(self, ref: str) -> tuple[str, str]:
        """Return type and id of `TYPE/ID`, or of an id that is looked up in all types."""
        type_name, task_id = split_ref(ref)
        if type_name is None:
            with reading():
                type_name = self.client.find(task_id).type
        return type_name, task_id


@contextmanager
def session() -> Iterator[Session]:
    """Open a client with the settings of the command line, and close it."""
    from scheduld.config.light import client_settings

    said = common()
    settings = client_settings(said.config, redis_url=said.redis_url)
    _mask_secrets_of(settings.redis_url)
    for text in settings.notes:
        note(f"scheduld: {printable(text)}")
    if said.namespace is not None:
        check_name("namespace", said.namespace)
    from scheduld.client.blocking import Client  # only now: it takes as long as all the rest

    with Client(
        said.redis_url,
        namespace=said.namespace,
        config=said.config,
        wait_s=parse_duration_ms(said.wait, what="--wait") / 1000,
    ) as client:
        yield Session(client, settings)


def _mask_secrets_of(url: str) -> None:
    from scheduld.observe.masking import Masker, install
    from scheduld.observe.secrets import url_secrets

    install(Masker(secrets=url_secrets(url)))


@contextmanager
def reading() -> Iterator[None]:
    """Of what only reads, a lost answer leaves nothing open: Redis was unreachable."""
    try:
        yield
    except OutcomeUnknown as exc:
        raise Unreachable(exc.message, hint=exc.hint) from None


def split_ref(text: str) -> tuple[str | None, str]:
    """Split `TYPE/ID` at the first slash; the type is None for a bare id."""
    type_name, slash, task_id = text.partition("/")
    if not slash:
        return None, check_id(text)
    return check_name("type", type_name), check_id(task_id)
