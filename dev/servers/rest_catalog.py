"""A REST catalog of Iceberg (Iceberg's own handlers of requests, in `RestCatalog.java`): tests of catalogs use it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from dev.servers.lake_jars import lake_jars, lake_store_jars
from dev.servers.packages import SetupError
from dev.servers.ports import ReservedPort, await_port

__all__ = ["rest_catalog"]

_SOURCE = Path(__file__).with_name("RestCatalog.java")


@contextlib.contextmanager
def rest_catalog(folder: Path) -> Iterator[str]:
    """A running catalog with its tables in a folder of this machine; its URL. Raises SetupError."""
    import pyspark

    if shutil.which("java") is None:
        raise SetupError("java is needed to run a REST catalog")
    # Iceberg and the driver of SQLite; Spark's jars have Hadoop, and a compiler for machines without a JDK
    jars = [*lake_jars(), *lake_store_jars(), Path(pyspark.__file__).parent / "jars" / "*"]
    reserved = ReservedPort()
    words = [str(reserved.number), str(folder / "catalog.db"), str(folder / "tables")]
    log = folder / "catalog.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["java", "-Xmx256m", "-cp", os.pathsep.join(map(str, jars)),
             "org.codehaus.janino.SimpleCompiler", str(_SOURCE), _SOURCE.stem, *words],
            stdout=output, stderr=output,
        )  # fmt: skip
    try:
        await_port(process, reserved.number, f"the REST catalog (its log: {log})")
        yield f"http://127.0.0.1:{reserved.number}"
    finally:
        process.terminate()
        process.wait()
        reserved.release()
