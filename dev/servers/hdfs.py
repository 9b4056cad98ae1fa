"""HDFS on this machine, and Hadoop's library libhdfs: tests of stores use them.

Hadoop's jar for tests contains the servers. Package registries contain the library only as C source, in a Rust package,
so a C compiler builds it here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree

from dev.servers.lake_jars import download_jars
from dev.servers.packages import SetupError, home, made_once
from dev.servers.ports import ReservedPort, await_port

__all__ = ["HDFS", "hdfs", "provision_hdfs"]

#: Its name among what can be provisioned.
HDFS = "hdfs"

# of the version of Hadoop that PySpark contains
_ARTIFACTS = {
    "org.apache.hadoop:hadoop-client-minicluster:3.4.2": (
        "ae2406c544825b7734b8aad4f87eff60d9ec422284f0b16c2856032083b63c77"
    ),
}
# the package with the source of libhdfs 3.3, and the SHA-256 of its archive
_PACKAGE, _VERSION = "hdfs-sys", "0.3.1"
_SHA256 = "18138c3dacdf0e95f834369f996b21d2b6fa99e71787ef45e2ece09b37bd1dd1"
_MANIFEST = f"""
[package]
name = "libhdfs"
version = "0.0.0"
edition = "2021"
[dependencies]
{_PACKAGE} = "={_VERSION}"
"""
# these machines live for seconds
_QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_SOURCE = Path(__file__).with_name("MiniHdfs.java")


def provision_hdfs() -> Path:
    """The folder of the jar and the library; fills it if it is not there. Raises SetupError."""
    return made_once(home() / "roots" / HDFS, _fill)


def _fill(folder: Path) -> None:
    java = _java_home()
    for needed in (shutil.which("cargo"), shutil.which("cc"), java / "include" / "jni.h"):
        if needed is None or not Path(needed).exists():
            raise SetupError("cargo, a C compiler and a JDK are needed to make libhdfs")
    download_jars(folder, _ARTIFACTS)
    project = folder / "source"
    (project / "src").mkdir(parents=True)
    (project / "src" / "lib.rs").touch()
    (project / "Cargo.toml").write_text(_MANIFEST)
    _run(["cargo", "vendor", "--quiet", "vendored"], project)
    package = project / "vendored" / _PACKAGE
    found = json.loads((package / ".cargo-checksum.json").read_text())["package"]
    if found != _SHA256:
        raise SetupError(f"{_PACKAGE} {_VERSION} has the sha256 {found}, and should have {_SHA256}")
    _compile(package / "libhdfs", java, folder / "lib" / "native" / "libhdfs.so")
    shutil.rmtree(project)


def _compile(source: Path, java: Path, library: Path) -> None:
    library.parent.mkdir(parents=True)
    here = source / "hdfs_3_3"
    includes = [source, here, here / "include", here / "os", here / "os" / "posix"]
    includes += [java / "include", java / "include" / "linux"]
    files = [*here.glob("*.c"), *(here / "os" / "posix").glob("*.c")]
    machine = java / "lib" / "server"
    _run(
        ["cc", "-shared", "-fPIC", "-O1", "-w", "-D_GNU_SOURCE", *(f"-I{one}" for one in includes),
         "-o", library, *files, f"-L{machine}", "-ljvm", "-lpthread", "-ldl"],
        source,
    )  # fmt: skip


def _run(command: list[str | Path], folder: Path) -> None:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SetupError(f"{command[0]} failed: {done.stderr.strip()[-1000:]}")


def _java_home() -> Path:
    """The directory of the Java in the PATH. Raises SetupError."""
    found = shutil.which("java")
    if found is None:
        raise SetupError("java is needed to run HDFS")
    return Path(found).resolve().parents[1]


@contextlib.contextmanager
def hdfs(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """A running HDFS with its data in a folder: its URI, and the environment that finds libhdfs. Raises SetupError."""
    import pyspark

    root = provision_hdfs()
    java = _java_home()
    jars = Path(pyspark.__file__).parent / "jars"
    with _reserved() as port, _reserved() as ready:
        address = f"hdfs://127.0.0.1:{port}"
        settings = _configured(folder / "conf", address, folder)
        needed = [settings, *root.glob("*.jar"), jars / "*"]
        log = folder / "hdfs.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["java", "-Xmx512m", *_QUICK.split(), "-cp", os.pathsep.join(map(str, needed)),
                 "org.codehaus.janino.SimpleCompiler", str(_SOURCE), _SOURCE.stem, str(ready)],
                stdout=output, stderr=output,
            )  # fmt: skip
        try:
            await_port(process, ready, f"HDFS (its log: {log})")
            yield (
                address,
                {
                    "JAVA_HOME": str(java),
                    "HADOOP_HOME": str(root),
                    "HADOOP_CONF_DIR": str(settings),
                    # as `hadoop classpath --glob` prints it: libhdfs does not know wildcards
                    "CLASSPATH": os.pathsep.join(map(str, [settings, *sorted(jars.glob("*.jar"))])),
                    "LIBHDFS_OPTS": f"-Xmx128m {_QUICK}",
                },
            )
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def _reserved() -> Iterator[int]:
    """A free port."""
    reserved = ReservedPort()
    try:
        yield reserved.number
    finally:
        reserved.release()


def _configured(conf: Path, address: str, folder: Path) -> Path:
    """The directory with the configuration files of servers and clients."""
    local = (
        "namenode.http-address",
        "datanode.address",
        "datanode.ipc.address",
        "datanode.http.address",
    )
    conf.mkdir()
    _write_settings(conf / "core-site.xml", {"fs.defaultFS": address})
    _write_settings(
        conf / "hdfs-site.xml",
        {
            "dfs.namenode.name.dir": str(folder / "name"),
            "dfs.datanode.data.dir": str(folder / "data"),
            **{f"dfs.{name}": "127.0.0.1:0" for name in local},
            "dfs.replication": "1",
            # The nodes refuse a new file unless the disk has room for a whole block, and some in reserve.
            "dfs.blocksize": "1m",
            "dfs.namenode.resource.du.reserved": "0",
        },
    )
    return conf


def _write_settings(file: Path, settings: Mapping[str, str]) -> None:
    found = ElementTree.Element("configuration")
    for name, value in settings.items():
        one = ElementTree.SubElement(found, "property")
        ElementTree.SubElement(one, "name").text = name
        ElementTree.SubElement(one, "value").text = value
    ElementTree.ElementTree(found).write(file)
