"""The peers in Java, built by Maven when they are needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["java_peer"]

_PEERS = Path(__file__).parent / "peers"


def java_peer(folder: str, name: str) -> list[str | Path]:
    """The command line of a class in a folder of the peers."""
    home = _PEERS / folder
    if not (home / "target" / "dependency").exists():
        subprocess.run(["mvn", "-q", "-B", "package"], cwd=home, check=True)
    return ["java", "-cp", f"{home}/target/classes:{home}/target/dependency/*", name]
