"""TLS to a live server: the policy of the options, and the resulting connection."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from binlake.errors import OptionError
from binlake.source.replica.login_rules import ChannelKind
from binlake.source.replica.url import ServerUrl, choice_option

#: The values of `ssl-mode`, as MySQL's clients name them.
SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")

_FILES = ("ssl-ca", "ssl-cert", "ssl-key", "ssl-capath", "ssl-crl", "ssl-crlpath")
_VERSIONS = {"tlsv1.2": ssl.TLSVersion.TLSv1_2, "tlsv1.3": ssl.TLSVersion.TLSv1_3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The facts about a server and a login on which the protection depends.

    `is_socket`: the connection is a unix socket of this machine. `has_password`: the login has one.
    """

    is_socket: bool
    is_mariadb: bool
    offers_tls: bool
    has_password: bool


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    """`context` is None if TLS is not wanted. `mode` is "" if the user has chosen none: then a
    MariaDB has to prove its certificate, as for its own client. `names_mariadb`: the URL names
    MariaDB.
    """

    context: ssl.SSLContext | None
    mode: str
    names_mariadb: bool = False

    def channel(self, peer: Peer) -> ChannelKind | None:
        """Return how the connection will be protected; None if the policy refuses it."""
        proven = self._proven(peer)
        if self.context is None or not peer.offers_tls:
            if proven or (self.context is not None and self.mode not in ("", "preferred")):
                return None
            return ChannelKind.UNIX_SOCKET if peer.is_socket else ChannelKind.PLAIN
        if self.mode.startswith("verify"):
            return ChannelKind.TLS_VERIFIED
        return ChannelKind.TLS_PROVEN if proven else ChannelKind.TLS_UNVERIFIED

    def missing(self) -> tuple[str, str]:
        """Return why a server without TLS is refused, and what to do."""
        if self.mode:
            return (
                f"ssl-mode={self.mode} requires TLS, but the server does not offer it",
                "enable TLS on the server, or choose another ssl-mode",
            )
        return (
            "the server does not offer TLS, which MariaDB logins with a password require by default",
            "ssl-mode=preferred connects without TLS where the server has none",
        )

    def secured(self, sock: socket.socket, host: str) -> ssl.SSLSocket:
        """Return the same connection with TLS. Raises ssl.SSLError, OSError."""
        assert self.context is not None
        return self.context.wrap_socket(sock, server_hostname=host)

    def _proven(self, peer: Peer) -> bool:
        if self.mode or peer.is_socket or not peer.has_password:
            return False
        return peer.is_mariadb or self.names_mariadb


def tls_policy(url: ServerUrl, file_options: dict[str, str], unix_socket: str) -> TlsPolicy:
    """The policy of a URL and of the option files (`file_options`).

    Raises OptionError for an unknown mode, and for files that cannot be used.
    """
    files = {name: url.option(name) or file_options.get(name, "") for name in _FILES}
    default = "verify_ca" if files["ssl-ca"] or files["ssl-capath"] else ""
    given = url.option("ssl-mode") or file_options.get("ssl-mode", "")
    mode = default
    if given:
        mode = choice_option(url.with_options(ssl_mode=given), "ssl-mode", SSL_MODES, "")
    names_mariadb = url.flavour == "mariadb"
    if mode == "disabled" or (unix_socket and mode in ("", "preferred")):
        return TlsPolicy(None, mode, names_mariadb)
    ciphers = url.option("ssl-cipher") or file_options.get("ssl-cipher", "")
    context = _context(files, ciphers, mode)
    _limit_versions(context, url.option("tls-version") or file_options.get("tls-version", ""))
    return TlsPolicy(context, mode, names_mariadb)


def _context(files: dict[str, str], ciphers: str, mode: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(
            cafile=files["ssl-ca"] or None, capath=_folder(files["ssl-capath"])
        )
        # certificates that servers make for themselves do not follow RFC 5280
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.check_hostname = mode == "verify_identity"
        context.verify_mode = ssl.CERT_REQUIRED if mode.startswith("verify") else ssl.CERT_NONE
        if files["ssl-cert"]:
            context.load_cert_chain(files["ssl-cert"], files["ssl-key"] or None)
        if files["ssl-crl"] or files["ssl-crlpath"]:
            context.load_verify_locations(files["ssl-crl"] or None, _folder(files["ssl-crlpath"]))
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        if ciphers:
            context.set_ciphers(ciphers)
    except (OSError, ValueError) as error:
        used = files | {"ssl-cipher": ciphers}
        named = ", ".join(f"{name}={path}" for name, path in used.items() if path)
        raise OptionError(f"{named}: cannot be used: {error}", name="ssl") from None
    return context


def _folder(path: str) -> str | None:
    """Check a folder of certificates, None for none; OpenSSL does not report a missing one."""
    if path and not Path(path).is_dir():
        raise NotADirectoryError(f"{path} is not a folder")
    return path or None


def _limit_versions(context: ssl.SSLContext, text: str) -> None:
    """Allow only the versions of TLS in a list. Raises OptionError."""
    if not text:
        return
    names = [name.strip().lower() for name in text.split(",")]
    if any(name not in _VERSIONS for name in names):
        raise OptionError(
            f"tls-version={text}: not of TLSv1.2, TLSv1.3", name="tls-version", value=text
        )
    versions = [_VERSIONS[name] for name in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
