"""`binlake spark-env FILE`: a packed Python environment for the executors of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from binlake.cli.common.lines import show
from binlake.cli.common.parameters import Argument, Option


def spark_env(
    file: Annotated[str, Argument(metavar="FILE", help="The archive to write (.tar.gz).")],
    package: Annotated[
        list[str] | None,
        Option("--package", metavar="NAME", help="Add an installed package; may be repeated."),
    ] = None,
) -> None:
    """Pack the running Python, binlake and its libraries for Spark executors that lack them.

    The archive contains a whole Python interpreter, so the executors need none. Their system must have
    the same kind of processor and the same or a newer C library. The package is not installed there:
    Spark unpacks the archive into the working directory of each executor.

    Examples:
      binlake spark-env environment.tar.gz

      binlake spark-env environment.tar.gz --package pandas
    """
    from binlake.spark.environment import pack_environment

    size = pack_environment(Path(file), package or ())
    show(f"{file}: {size:,} bytes")
    show("unpack it on the driver, too, and start Spark there:")
    show(f"  mkdir -p environment && tar -xzf {file} -C environment")
    show("  export PYSPARK_PYTHON=./environment/bin/python")
    show(f"  spark-submit --archives {file}#environment …")
