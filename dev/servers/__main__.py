"""Provision and run servers by hand: `python -m dev.servers --help`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from dev.servers.catalog import INSTALLATIONS, installation
from dev.servers.hdfs import HDFS, provision_hdfs
from dev.servers.lake_jars import LAKE_JARS, LAKE_STORE_JARS, lake_jars, lake_store_jars
from dev.servers.lake_readers import LAKE_READERS, provision_lake_readers
from dev.servers.object_store import OBJECT_STORE, provision_object_store
from dev.servers.packages import SetupError
from dev.servers.percona_toolkit import PERCONA_TOOLKIT, provision_percona_toolkit
from dev.servers.server import Server

#: What is not a server of MySQL or MariaDB.
_OTHERS: dict[str, Callable[[], Path]] = {
    OBJECT_STORE: provision_object_store,
    LAKE_JARS: lambda: lake_jars()[0].parent,
    LAKE_STORE_JARS: lambda: lake_store_jars()[0].parent,
    HDFS: provision_hdfs,
    LAKE_READERS: provision_lake_readers,
    PERCONA_TOOLKIT: provision_percona_toolkit,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dev.servers", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    provision = verbs.add_parser(
        "provision", help=f"download and unpack (all by default, except {HDFS})"
    )
    # HDFS needs a compiler and a JDK, which the tests of the default do not need
    usual = [name for name in (*INSTALLATIONS, *_OTHERS) if name != HDFS]
    provision.add_argument("server", nargs="*", default=usual)
    start = verbs.add_parser("start", help="start on 127.0.0.1; data under FOLDER")
    start.add_argument("server")
    start.add_argument("folder", type=Path)
    start.add_argument("option", nargs="*", help="server options, after --")
    stop = verbs.add_parser("stop", help="stop what was started there")
    stop.add_argument("server")
    stop.add_argument("folder", type=Path)
    reader = verbs.add_parser("binlog", help="the server's own reader of binary logs")
    reader.add_argument("server")
    reader.add_argument("argument", nargs="*", help="its arguments, after --")
    return parser


def main() -> None:
    """Do what the command line says."""
    given = _parser().parse_args()
    if given.verb == "provision":
        for name in given.server:
            other = _OTHERS.get(name)
            print(f"{name}: {installation(name).root if other is None else other()}")
    elif given.verb == "start":
        server = Server(installation(given.server), given.folder.resolve())
        server.start(given.option)
        print(f"socket={server.run / 'server.sock'} port={server.port}")
    elif given.verb == "stop":
        Server(installation(given.server), given.folder.resolve()).stop()
    else:
        command = [*installation(given.server).reader_command(), *given.argument]
        os.execv(command[0], command)


try:
    main()
except SetupError as error:
    sys.exit(f"error: {error}")
