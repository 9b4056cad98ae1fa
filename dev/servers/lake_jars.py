"""The jars of the lake formats, from Maven Central: Spark's tests write their tables with them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from dev.servers.packages import SetupError, check_digest, home, made_once

__all__ = ["LAKE_JARS", "lake_jars"]

#: Its name among what can be provisioned.
LAKE_JARS = "lake-jars"

# the newest that run on the pinned Spark, and the SHA-256 of each jar
_ARTIFACTS = {
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0": (
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82"
    ),
    "io.delta:delta-spark_4.1_2.13:4.4.0": (
        "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10"
    ),
    "io.delta:delta-storage:4.4.0": (
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc"
    ),
}
_SECONDS = 900  # a deadline only


def lake_jars() -> list[Path]:
    """The jars of Iceberg and Delta; downloads them when they are not there. Raises SetupError."""
    folder = made_once(home() / "roots" / LAKE_JARS, _download)
    return sorted(folder.glob("*.jar"))


def _download(folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise SetupError("mvn is needed to get the jars of the lake formats")
    for artifact, digest in _ARTIFACTS.items():
        command = [
            "mvn", "--quiet", "--batch-mode", "dependency:copy", f"-Dartifact={artifact}",
            f"-DoutputDirectory={folder}",
        ]  # fmt: skip
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS, cwd=folder
        )
        if run.returncode:
            raise SetupError(f"{artifact} cannot be had: {run.stdout.strip()[-1000:]}")
        _, name, version = artifact.split(":")
        check_digest(folder / f"{name}-{version}.jar", "sha256", digest)
