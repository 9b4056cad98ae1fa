"""A packed environment runs where nothing is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import binlake
from binlake.cli.main import main
from binlake.errors import OptionError, SourceError
from binlake.spark.environment import pack_environment

GOLDEN = Path(__file__).parents[2] / "golden"

_ASK = """
import json, sys
import binlake, pyarrow, ssl
from binlake.spark.hosts import core_is_compiled, installed_version
rows = sum(binlake.open(sys.argv[1]).tables()["golden.r"].values())
places = [sys.executable, binlake.__file__, pyarrow.__file__, ssl.__file__]
print(json.dumps([rows, installed_version(), core_is_compiled(), places]))
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="run this on Linux")


@linux_only
def test_the_interpreter_and_the_packages_are_those_of_the_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    packed = tmp_path / "environment.tar.gz"
    assert main(["spark-env", str(packed)]) == 0
    assert f"--archives {packed}#environment" in capsys.readouterr().out
    there = tmp_path / "elsewhere" / "environment"
    with tarfile.open(packed) as archive:
        archive.extractall(there, filter="tar")
    packages = {path.name for path in (there / "packages").iterdir()}
    assert "pyspark_binlake.py" in packages
    assert not packages & {"pyspark", "pytest", "mypy"}
    log = str(GOLDEN / "mysql-9.7" / "rotation" / "binlog.index")
    done = subprocess.run(
        ["environment/bin/python", "-c", _ASK, log],
        cwd=there.parent, env={"PATH": os.defpath}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows, version, compiled, places = json.loads(done.stdout)
    assert rows == sum(binlake.open(log).tables()["golden.r"].values())
    assert version
    assert compiled
    assert [place for place in places if not place.startswith(str(there))] == []


def test_mistakes(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"\.tar\.gz"):
        pack_environment(tmp_path / "environment.7z")
    if sys.platform == "linux":
        with pytest.raises(OptionError, match="no-such-package is not installed"):
            pack_environment(tmp_path / "environment.tgz", ["no-such-package"])
        with pytest.raises(SourceError, match=r"cannot write .*: No such file"):
            pack_environment(tmp_path / "gone" / "environment.tgz")
    assert list(tmp_path.iterdir()) == []
