"""The jars of the lake formats, from Maven Central: Spark's tests write their tables with them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dev.servers.packages import SetupError, check_digest, home, made_once

__all__ = ["LAKE_JARS", "LAKE_STORE_JARS", "download_jars", "lake_jars", "lake_store_jars"]

#: Their names among what can be provisioned.
LAKE_JARS, LAKE_STORE_JARS = "lake-jars", "lake-store-jars"

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
# what Iceberg needs for tables in S3, with a catalog in a file
_STORE_ARTIFACTS = {
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0": (
        "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957"
    ),
    "org.xerial:sqlite-jdbc:3.50.3.0": (
        "a3f53a2aa15ae9425a9e793bbe9c8e5288febeb4b65ef5c1a4e80d4c2045cf08"
    ),
}
_SECONDS = 900  # a deadline only


def lake_jars() -> list[Path]:
    """The jars of Iceberg and Delta; downloads them when they are not there. Raises SetupError."""
    return _provisioned(LAKE_JARS, _ARTIFACTS)


def lake_store_jars() -> list[Path]:
    """The jars for Iceberg's tables in S3; downloads them when they are not there. Raises SetupError."""
    return _provisioned(LAKE_STORE_JARS, _STORE_ARTIFACTS)


def _provisioned(name: str, artifacts: Mapping[str, str]) -> list[Path]:
    folder = made_once(home() / "roots" / name, lambda here: download_jars(here, artifacts))
    return sorted(folder.glob("*.jar"))


def download_jars(folder: Path, artifacts: Mapping[str, str]) -> None:
    """Download jars, by coordinates, that have these SHA-256. Raises SetupError."""
    if shutil.which("mvn") is None:
        raise SetupError("mvn is needed to get jars")
    for artifact, digest in artifacts.items():
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
