"""Java classes of binlake: Janino, which is in Spark's jars, compiles them in the session's JVM."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# the attribute of a gateway that keeps the instances by package and name
_INSTANCES = "_binlake_java_instances"


def java_instance(spark: SparkSession, package: str, name: str) -> Any:
    """The JVM's only instance of the class `name` in the file `name`.java of a package.

    A JVM outlives its sessions. Py4J finds methods by the name of the class, so a class that a second session
    compiled anew would be called by the methods of the first.
    """
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    # `getattr` would find a member of Java's entry point
    known: dict[tuple[str, str], Any] = vars(gateway).setdefault(_INSTANCES, {})
    if (package, name) not in known:
        known[package, name] = _made(gateway, files(package).joinpath(f"{name}.java"), name)
    return known[package, name]


def _made(gateway: Any, source: Any, name: str) -> Any:
    jvm = gateway.jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source.read_text("utf-8"))
    constructor = (
        compiler.getClassLoader()
        .loadClass(name)
        .getDeclaredConstructor(gateway.new_array(jvm.java.lang.Class, 0))
    )
    return constructor.newInstance(gateway.new_array(jvm.java.lang.Object, 0))
