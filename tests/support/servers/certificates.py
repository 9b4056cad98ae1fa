"""An authority and a certificate for a server of a test."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

__all__ = ["certificate"]


def certificate(folder: Path, name: str = "127.0.0.1") -> dict[str, str]:
    """An authority, and a certificate of it for an address: files as options of a server."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    now = datetime.now(UTC)
    keys = [rsa.generate_private_key(65537, 2048) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in ("CA", name)
    ]
    files = {}
    for at, kind in enumerate(("ca", "server")):
        builder = (
            x509.CertificateBuilder().subject_name(names[at]).issuer_name(names[0])
            .public_key(keys[at].public_key()).serial_number(at + 1)
            .not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=9))
            .add_extension(x509.BasicConstraints(ca=not at, path_length=None), critical=True)
        )  # fmt: skip
        if at:
            address = x509.IPAddress(ipaddress.ip_address(name))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        signed = builder.sign(keys[0], hashes.SHA256())
        files[kind] = str(folder / f"{kind}.pem")
        Path(files[kind]).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    files["key"] = str(folder / "key.pem")
    Path(files["key"]).write_bytes(
        keys[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    return files
