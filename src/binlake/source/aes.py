"""AES, by the library `cryptography`: what the servers' ways of encrypting logs are made of.

The library is an extra (`binlake[crypto]`) and is loaded when the first encrypted log is opened.
"""

from __future__ import annotations

from typing import Any

from binlake.errors import BinlogError

__all__ = ["BLOCK_BYTES", "Aes", "xor"]

#: The size of a block, and of an IV.
BLOCK_BYTES = 16


def xor(a: bytes, b: bytes) -> bytes:
    """Bytes of the same length, bit by bit."""
    mixed = int.from_bytes(a, "little") ^ int.from_bytes(b, "little")
    return mixed.to_bytes(len(a), "little")


class Aes:
    """AES with one key of 16, 24 or 32 bytes. Shows nothing of the key.

    The constructor raises ValueError for another length, BinlogError where the library is missing.
    """

    __slots__ = ("_algorithm", "_cipher", "_modes")

    def __init__(self, key: bytes) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        except ImportError:
            raise BinlogError(
                "encrypted logs need the library cryptography", hint="pip install 'binlake[crypto]'"
            ) from None
        self._algorithm: Any = algorithms.AES(key)
        self._cipher: Any = Cipher
        self._modes: Any = modes

    def encrypt_blocks(self, blocks: bytes) -> bytes:
        """Each block by itself (ECB). For what is built on it here, never for data."""
        encryptor = self._cipher(self._algorithm, self._modes.ECB()).encryptor()
        encrypted: bytes = encryptor.update(blocks)
        return encrypted

    def decrypt_blocks(self, blocks: bytes) -> bytes:
        """Each block by itself (ECB)."""
        decryptor = self._cipher(self._algorithm, self._modes.ECB()).decryptor()
        plain: bytes = decryptor.update(blocks)
        return plain

    def decrypt_cbc(self, iv: bytes, data: bytes) -> bytes:
        """Whole blocks in CBC mode; padding, if there is any, is left on."""
        decryptor = self._cipher(self._algorithm, self._modes.CBC(iv)).decryptor()
        plain: bytes = decryptor.update(data)
        return plain

    def decrypt_ctr(self, counter: bytes, skip: int, data: bytes) -> bytes:
        """CTR mode: `counter` belongs to the block in which `data` begins at byte `skip`."""
        decryptor = self._cipher(self._algorithm, self._modes.CTR(counter)).decryptor()
        decryptor.update(bytes(skip))
        plain: bytes = decryptor.update(data)
        return plain

    def __repr__(self) -> str:
        return "<Aes>"
