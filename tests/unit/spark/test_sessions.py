"""Before a JVM starts: is there a Java for it?"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from binlake.errors import SourceError
from binlake.spark.sessions import check_java


def java_home(folder: Path, version: str) -> str:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("version", ["17.0.15", "17", "21-ea", "25.0.1"])
def test_new_enough(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, version))
    check_java()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22"])
def test_too_old(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, version))
    with pytest.raises(
        SourceError, match=f"needs Java 17 or newer; .* is version {version}; install"
    ):
        check_java()


def test_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SourceError, match="but there is none; install one"):
        check_java()
