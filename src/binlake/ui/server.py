"""Serves the page on this machine until it is stopped."""

from __future__ import annotations

import errno
import logging
import socket
from threading import Thread

import uvicorn

from binlake.errors import OptionError
from binlake.ui.app import application
from binlake.ui.guard import new_token
from binlake.ui.opened_logs import LogSession

_HOST = "127.0.0.1"
_GRACE_SECONDS = 1


class PageServer:
    """The server of one session, in a thread. It listens on 127.0.0.1 only."""

    def __init__(self, session: LogSession, port: int) -> None:
        """Bind the port; 0 is any free one. Raises OptionError if another program has it."""
        self._session = session
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((_HOST, port))
            self._socket.listen()  # a browser may ask before the server runs: it waits
        except OSError as error:
            self._socket.close()
            what = "in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
            raise OptionError(
                f"port {port} is {what}", name="port", value=port, hint="choose another with --port"
            ) from None
        self.port: int = self._socket.getsockname()[1]
        self._token = new_token()
        # no log of requests: its lines would have the token, wherever the process logs to
        logging.getLogger("uvicorn.access").disabled = True
        config = uvicorn.Config(
            application(session, self._token, self.port), log_config=None,
            server_header=False, timeout_graceful_shutdown=_GRACE_SECONDS, lifespan="off",
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._run, name="binlake-ui-server", daemon=True)

    @property
    def url(self) -> str:
        """The address that opens the page. It contains the token: show it to the user only."""
        return f"http://{_HOST}:{self.port}/?token={self._token}"

    def start(self) -> None:
        """Serve, and read the logs, in threads."""
        self._session.begin()
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop serving and reading."""
        self._server.should_exit = True
        self._session.close()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])
