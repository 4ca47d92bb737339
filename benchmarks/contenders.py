"""Who takes part: scheduld, the floor, and each peer that has been installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from benchmarks.drive import Driver, DriverFailed, act

HERE = Path(__file__).parent
OURS = ("scheduld", "floor")
_INSTALLED = HERE / ".peers"
_PEERS = HERE / "peers"
_INFO_S = 60.0


@dataclass(frozen=True)
class Contender:
    """A driver, and what it says of itself."""

    driver: Driver
    version: str
    delivery: str
    variants: dict[str, str]

    @property
    def name(self) -> str:
        """Name of the peer."""
        return self.driver.name


def peers() -> list[str]:
    """Every peer there is a driver for, installed or not."""
    return sorted(
        folder.name
        for folder in _PEERS.iterdir()
        if folder.name not in OURS and list(folder.glob("driver.*"))
    )


def installed() -> list[str]:
    """What can be run now: ours first."""
    return [*OURS, *(name for name in peers() if _is_installed(name))]


def install(name: str) -> None:
    """Put a peer into a folder of its own; raises CalledProcessError."""
    target, source = _INSTALLED / name, _PEERS / name
    target.mkdir(parents=True, exist_ok=True)
    if _is_node(name):
        shutil.copy(source / "package.json", target)
        npm = shutil.which("npm") or "npm"
        quiet = ["--omit=dev", "--no-audit", "--no-fund", "--no-package-lock"]
        subprocess.run([npm, "install", *quiet], cwd=target, check=True)  # noqa: S603
        return
    venv.create(target, with_pip=True, clear=True)
    pip = [str(target / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, "-r", str(source / "requirements.txt")], check=True)  # noqa: S603


def meet(name: str) -> Contender:
    """Ask a driver who it is; raises DriverFailed."""
    driver = _driver(name)
    said = act(driver, "info", [], timeout_s=_INFO_S).values
    try:
        variants = {str(key): str(words) for key, words in said["variants"].items()}
        return Contender(driver, str(said["version"]), str(said["delivery"]), variants)
    except (KeyError, AttributeError) as error:
        raise DriverFailed(f"{name} info: {error!r} in {said}") from error


def _driver(name: str) -> Driver:
    root = str(HERE.parent)
    if name in OURS:
        module = "benchmarks.floor.driver" if name == "floor" else f"benchmarks.peers.{name}.driver"
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        return Driver(name, (sys.executable, "-m", module), {"PYTHONPATH": path})
    if _is_node(name):
        node = shutil.which("node") or "node"
        modules = {"BENCH_MODULES": str(_INSTALLED / name), "NODE_ENV": "production"}
        return Driver(name, (node, str(_PEERS / name / "driver.mjs")), modules)
    python = str(_INSTALLED / name / "bin" / "python")
    return Driver(name, (python, str(_PEERS / name / "driver.py")), {"PYTHONPATH": ""})


def _is_node(name: str) -> bool:
    return (_PEERS / name / "driver.mjs").exists()


def _is_installed(name: str) -> bool:
    inside = "node_modules" if _is_node(name) else "bin/python"
    return (_INSTALLED / name / inside).exists()
