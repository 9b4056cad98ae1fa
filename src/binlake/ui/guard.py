"""Access to the page: only for a browser on this machine that has the token, and only for reading."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: The names under which a browser may reach the page: a name of another site would be one that was
#: pointed at this machine (DNS rebinding).
_HOSTS = frozenset(("127.0.0.1", "localhost"))

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(32)


class Guard:
    """Middleware: answers requests with the token only, and adds the headers that protect the page.

    A request with `?token=` gets the cookie and is sent on to the page without it, so the token does
    not stay in the address or the history of the browser.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        # cookies do not distinguish ports
        self._cookie = f"binlake_ui_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, protected)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """Return the answer to a request that is not passed on."""
        headers = Headers(scope=scope)
        host, _, port = headers.get("host", "").partition(":")
        if host.lower() not in _HOSTS or (port and not port.isdigit()):
            return _plain("This name is not one of this page.", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return _plain("This page only reads.", 405)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if given is not None and scope["path"] == "/":
            return self._login(given[-1])
        if not self._is_known(headers):
            return _plain("Open the address that binlake ui printed: it contains a token.", 403)
        return None

    def _login(self, given: str) -> ASGIApp:
        if not secrets.compare_digest(given.encode("utf-8", "replace"), self._token.encode()):
            return _plain("Wrong token. Open the address that binlake ui printed last.", 403)
        answer = RedirectResponse("/", status_code=303)
        answer.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
        return answer

    def _is_known(self, headers: Headers) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return False
        cookie = cookies.get(self._cookie)
        return cookie is not None and secrets.compare_digest(
            cookie.value.encode("utf-8", "replace"), self._token.encode()
        )


def _plain(text: str, status: int) -> ASGIApp:
    return PlainTextResponse(text + "\n", status_code=status)
