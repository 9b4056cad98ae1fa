"""The TLS side of the server: a certificate from files, or one made at the start."""

from __future__ import annotations

import hashlib
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from binlake.errors import OptionError, needing

_VALID_DAYS = 365


class ServerTls:
    """The TLS objects of connections: the context, and the certificate's SHA-256 `fingerprint`.

    MariaDB's clients compare the fingerprint if nothing else identifies the server.
    """

    def __init__(self, certificate: str | None, private_key: str | None) -> None:
        """Raise OptionError for files that are not a certificate and its key."""
        if (certificate is None) != (private_key is None):
            raise OptionError("--ssl-cert and --ssl-key must be given together", name="ssl-cert")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.self_made = certificate is None
        if certificate is not None:
            self.fingerprint = self._load(certificate, str(private_key))
            return
        with tempfile.TemporaryDirectory(prefix="binlake-tls-") as folder:  # mode 0700
            self.fingerprint = self._load(*_make_certificate(Path(folder)))

    def _load(self, certificate: str, private_key: str) -> bytes:
        try:
            pem = Path(certificate).read_text(encoding="ascii")
            self.context.load_cert_chain(certificate, private_key, password=_no_prompt)
            first = pem[pem.index("-----BEGIN CERTIFICATE") :]
            first = first[: first.index("-----END CERTIFICATE-----") + 25]
            return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first)).digest()
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            reason = getattr(error, "strerror", None) or str(error)
            raise OptionError(
                f"{certificate} and {private_key} are not a certificate and its private key:"
                f" {reason}",
                name="ssl-cert",
                hint="both must be PEM files, and the key must have no passphrase",
            ) from None


def _no_prompt() -> str:
    raise ValueError("the key has a passphrase")


def _make_certificate(folder: Path) -> tuple[str, str]:
    """Create a self-signed certificate and its key, as files in `folder`."""
    with needing(
        "TLS without --ssl-cert needs the package cryptography",
        "crypto",
        OptionError,
        ", or give --ssl-cert and --ssl-key",
    ):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "binlake serve")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks differ
        .not_valid_after(now + timedelta(days=_VALID_DAYS))
        .sign(key, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(files[0]), str(files[1])
