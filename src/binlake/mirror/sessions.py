"""The Spark session of a mirror: Iceberg's jar and a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlake.errors import OptionError
from binlake.mirror.lake_state import check_lake, is_same_lake, lake_location
from binlake.mirror.tables.formats import DELTA, format_of
from binlake.spark.java_class import java_instance
from binlake.spark.sessions import SQL_SETTINGS, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The catalog's name in the session, unless another is given.
CATALOG = "lake"
#: The jars that are fetched by Spark's own resolver where none are given.
ICEBERG_PACKAGE = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"

DELTA_PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"

_OF_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# the attribute of a SparkContext that keeps its sessions beside the first one, by the settings of their catalogs
_SESSIONS = "_binlake_mirror_sessions"
_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
# A commit is too little work for the JVM's second compiler: it would take up to 45 % of the CPU time of the first
# rounds, and half of that of the first idle minute. Tasks are Python.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"


def has_own_catalog(config: Mapping[str, str], catalog: str) -> bool:
    """Whether settings of Spark describe a catalog. If they do not, the directory of the lake is the catalog."""
    return any(name.startswith(f"spark.sql.catalog.{catalog}.") for name in config)


def mirror_session(
    lake: str,
    *,
    master: str | None = None,
    catalog: str = CATALOG,
    iceberg_jar: str | None = None,
    config: Mapping[str, str] | None = None,
    log_file: Path | None = None,
    table_format: str = "",
) -> SparkSession:
    """A session with a catalog: by default Iceberg's Hadoop catalog in the directory `lake`.

    `table_format` is that of a lake that has none yet: with `delta` there is no catalog, as tables are
    directories. `config` wins over what is set here: with `spark.sql.catalog.<catalog>.type` in it, or
    `.catalog-impl`, the catalog is that one, and `lake` its warehouse unless it is no Hadoop catalog and names another. With
    `spark.jars`, `spark.jars.packages` or an extra class path in it no jar is added.

    A running session is used if its catalog is the same one, or if it has none of the name; else the session is a new one beside it, in the
    same JVM. Raises OptionError, SourceError.
    """
    check_lake(lake)
    given = dict(config or {})
    if (format_of(lake) or table_format) == DELTA:
        return _delta_session(catalog, iceberg_jar, master, given, log_file)
    name = f"spark.sql.catalog.{catalog}"
    if catalog != CATALOG and not has_own_catalog(given, catalog):
        raise OptionError(
            f"no setting describes the catalog {catalog}",
            name="catalog",
            hint=f"give {name}.type, or {name}.catalog-impl; without a name, the directory of the lake is the catalog",
        )
    warehouse = given.get(f"{name}.warehouse", lake)
    is_hadoop = given.get(f"{name}.type", "hadoop") == "hadoop"
    if is_hadoop and f"{name}.catalog-impl" not in given and not is_same_lake(warehouse, lake):
        raise OptionError(
            f"the setting {name}.warehouse is {warehouse}, and the lake is {lake}",
            name="config",
            hint="leave the setting out: the place of the lake is the warehouse",
        )
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.defaultJavaOptions": _JAVA_OPTIONS,
        "spark.sql.extensions": _EXTENSIONS,
        name: "org.apache.iceberg.spark.SparkCatalog",
        # another catalog may take it as a name
        f"{name}.warehouse": lake if has_own_catalog(given, catalog) else lake_location(lake),
        f"{name}.cache-enabled": "false",
    }
    if f"{name}.catalog-impl" not in given:
        settings[f"{name}.type"] = "hadoop"
    if iceberg_jar is not None:
        if "://" not in iceberg_jar and not Path(iceberg_jar).is_file():
            raise OptionError(f"there is no file {iceberg_jar}", name="iceberg_jar")
        settings["spark.jars"] = iceberg_jar
        # tasks of a mirror are Python: only the driver needs the classes, from the start
        settings["spark.driver.extraClassPath"] = iceberg_jar
    elif not given.keys() & {"spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"}:
        settings["spark.jars.packages"] = ICEBERG_PACKAGE
    return _with_catalog(name, master, {**settings, **given}, log_file)


def _with_catalog(
    name: str, master: str | None, config: Mapping[str, str], log_file: Path | None
) -> SparkSession:
    """A session with these settings. `name`: that of the setting of its catalog, which Spark loads once: a session that has another
    catalog of the name would keep that.
    """
    running = _running()
    wanted = {key: value for key, value in config.items() if f"{key}.".startswith(f"{name}.")}
    if (
        running is None
        or running.conf.get(name, None) is None
        or all(running.conf.get(key, None) == value for key, value in wanted.items())
    ):
        return _started(master, config, log_file)
    sessions: dict[frozenset[tuple[str, str]], SparkSession]
    sessions = vars(running.sparkContext).setdefault(_SESSIONS, {})
    key_of_catalog = frozenset(wanted.items())
    if key_of_catalog not in sessions:
        sessions[key_of_catalog] = running.newSession()
    beside = sessions[key_of_catalog]
    jvm: Any = running._jvm
    is_static = jvm.org.apache.spark.sql.internal.SQLConf.isStaticConfigKey
    for key, value in {**SQL_SETTINGS, **config}.items():
        if key.startswith("spark.sql.") and not is_static(key):
            beside.conf.set(key, value)
    return _without_processes(beside)


def _running() -> SparkSession | None:
    """The session that `start` would return, if there is one already. Raises as `check_classic`."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        found = SparkSession.active()
    except PySparkRuntimeError:
        return None
    check_classic(found)
    return found


def _delta_session(
    catalog: str,
    iceberg_jar: str | None,
    master: str | None,
    given: Mapping[str, str],
    log_file: Path | None,
) -> SparkSession:
    """A session for Delta tables. Raises OptionError, SourceError."""
    for name, value, default in (
        ("catalog", catalog, CATALOG),
        ("iceberg_jar", iceberg_jar, None),
    ):
        if value != default:
            raise OptionError(
                f"option {name}: the lake's tables are directories of format delta",
                name=name,
                hint="leave it out; the setting spark.jars takes the jars of Delta",
            )
    running = _running()
    extensions = "" if running is None else running.conf.get("spark.sql.extensions", None) or ""
    if running is not None and _OF_DELTA["spark.sql.extensions"] not in extensions:
        raise OptionError(
            "the Spark session of this process was started without Delta",
            name="spark",
            hint="stop it before: SparkSession.active().stop(); or pass a session that has Delta",
        )
    settings = {"spark.ui.enabled": "false", **_OF_DELTA}
    if not given.keys() & {"spark.jars", "spark.jars.packages", "spark.driver.extraClassPath"}:
        settings["spark.jars.packages"] = DELTA_PACKAGE
    return _started(master, {**settings, **given}, log_file)


def _started(master: str | None, config: Mapping[str, str], log_file: Path | None) -> SparkSession:
    return _without_processes(
        start("binlake mirror", master=master, config=config, log_file=log_file)
    )


def check_classic(spark: SparkSession) -> None:
    """Raise OptionError for a session of Spark Connect, which cannot call the JVM's methods."""
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise OptionError(
            "the Spark session is one of Spark Connect; a mirror needs a classic session",
            name="spark",
            hint="start it with a master, as in SparkSession.builder.master('local[*]'), in a process without SPARK_REMOTE",
        )


def _without_processes(spark: SparkSession) -> SparkSession:
    """The session, whose JVM then starts no process for each file that a commit creates. Raises as `check_classic`."""
    check_classic(spark)
    local_files = java_instance(spark, "binlake.spark", "LocalFiles")
    local_files.use(spark.sparkContext._jsc.hadoopConfiguration())
    return spark
