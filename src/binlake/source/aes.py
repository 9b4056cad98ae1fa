"""AES, from the library `cryptography`: the building block of the servers' log encryption.

The library is an extra (`binlake[crypto]`) and is loaded when the first encrypted log is opened.
"""

from __future__ import annotations

from typing import Any

from binlake.errors import needing

#: The size of a block, and of an IV.
BLOCK_BYTES = 16


def xor(a: bytes, b: bytes) -> bytes:
    """Bytes of the same length, bit by bit."""
    mixed = int.from_bytes(a, "little") ^ int.from_bytes(b, "little")
    return mixed.to_bytes(len(a), "little")


class Aes:
    """AES with one key of 16, 24 or 32 bytes. Does not show the key.

    The constructor raises ValueError for another length, BinlogError if the library is missing.
    """

    __slots__ = ("_algorithm", "_cipher", "_modes")

    def __init__(self, key: bytes) -> None:
        with needing("encrypted logs need the library cryptography", "crypto"):
            from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        self._algorithm: Any = algorithms.AES(key)
        self._cipher: Any = Cipher
        self._modes: Any = modes

    def encrypt_blocks(self, blocks: bytes) -> bytes:
        """Encrypt each block by itself (ECB): a building block for other modes, never for data."""
        encryptor = self._cipher(self._algorithm, self._modes.ECB()).encryptor()
        encrypted: bytes = encryptor.update(blocks)
        return encrypted

    @staticmethod
    def unpadded(data: bytes) -> bytes:
        """Return decrypted data without its PKCS #7 padding. Raises ValueError if it has none."""
        from cryptography.hazmat.primitives.padding import PKCS7

        unpadder = PKCS7(8 * BLOCK_BYTES).unpadder()
        return unpadder.update(data) + unpadder.finalize()

    def decrypt_blocks(self, blocks: bytes) -> bytes:
        """Decrypt each block by itself (ECB)."""
        decryptor = self._cipher(self._algorithm, self._modes.ECB()).decryptor()
        plain: bytes = decryptor.update(blocks)
        return plain

    def decrypt_cbc(self, iv: bytes, data: bytes) -> bytes:
        """Decrypt whole blocks in CBC mode, without removing padding."""
        decryptor = self._cipher(self._algorithm, self._modes.CBC(iv)).decryptor()
        plain: bytes = decryptor.update(data)
        return plain

    def decrypt_ctr(self, counter: bytes, skip: int, data: bytes) -> bytes:
        """Decrypt in CTR mode: `counter` belongs to the block in which `data` begins at byte
        `skip`.
        """
        decryptor = self._cipher(self._algorithm, self._modes.CTR(counter)).decryptor()
        decryptor.update(bytes(skip))
        plain: bytes = decryptor.update(data)
        return plain

    def __repr__(self) -> str:
        return "<Aes>"
