"""The requests that the page makes, as functions over a LogSession. All of them read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from binlake.errors import BinlogError, OptionError
from binlake.ui.answers import Answers
from binlake.ui.assets import index_page, static_file
from binlake.ui.guard import Guard
from binlake.ui.opened_logs import LogSession, Stopped

#: Reads that run side by side; the others wait.
_READS = 2
_LOOK_SECONDS = 0.25

Answer = Callable[[dict[str, str], list[str], Event], dict[str, Any]]


def application(session: LogSession, token: str, port: int) -> Starlette:
    """Return the application of ASGI that serves the page of a session to those with the token."""
    reads = _Reads()
    routes: list[Route] = [
        Route("/", _index, methods=["GET"]),
        Route("/static/{name}", _static, methods=["GET"]),
        *(
            Route(f"/api/{name}", partial(reads.answer, of), methods=["GET"])
            for name, of in Answers(session).by_name().items()
        ),
    ]
    guard = Middleware(Guard, token=token, port=port)
    return Starlette(routes=routes, middleware=[guard])


async def _index(_: Request) -> Response:
    return HTMLResponse(index_page())


async def _static(request: Request) -> Response:
    found = static_file(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    content, kind = found
    return Response(content, media_type=kind)


class _Reads:
    """Runs reads in threads; a few of them side by side."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None  # it belongs to the running loop

    async def answer(self, of: Answer, request: Request) -> Response:
        """Answer a request by a read. The read stops if the browser no longer waits for it."""
        limiter = self._limiter = self._limiter or anyio.CapacityLimiter(_READS)
        stop = Event()
        query = dict(request.query_params)
        keys = request.query_params.getlist("key")
        result: list[Response] = []

        async def run() -> None:
            read = partial(_response, of, query, keys, stop)
            result.append(await anyio.to_thread.run_sync(read, limiter=limiter))
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(run)
            while not result:
                await anyio.sleep(_LOOK_SECONDS)
                if await request.is_disconnected():
                    stop.set()
                    break
        return result[0] if result else Response(status_code=499)


def _response(of: Answer, query: dict[str, str], keys: list[str], stop: Event) -> Response:
    with suppress(Stopped):
        try:
            return JSONResponse(of(query, keys, stop))
        except BinlogError as error:
            wrong_use = isinstance(error, OptionError)
            return JSONResponse({"error": str(error)}, status_code=400 if wrong_use else 422)
        except OSError as error:
            return JSONResponse({"error": error.strerror or str(error)}, status_code=422)
    return Response(status_code=499)
