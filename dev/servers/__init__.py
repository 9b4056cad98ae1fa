"""Real MySQL and MariaDB servers to make logs with.

Programs are downloaded once into `$BINLAKE_SERVERS_HOME` (default `~/.cache/binlake-servers`)
and run from there through their own dynamic loader: nothing is installed into the host and no
container is needed. x86-64 Linux with apt-get (and npm for MySQL 5.6).

    with running("mysql-9.7", ["--binlog-row-image=MINIMAL"]) as server:
        server.execute("CREATE DATABASE shop")
        print(server.rows("SELECT VERSION()"), server.log_files())

Shell: `python -m dev.servers --help`.
"""

from dev.servers.catalog import INSTALLATIONS, installation
from dev.servers.server import RefusedError, Server, Session, busy, running

__all__ = ["INSTALLATIONS", "RefusedError", "Server", "Session", "busy", "installation", "running"]
