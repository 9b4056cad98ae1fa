"""How MariaDB encrypts a message of any length without padding: CBC and CTR.

In CBC, if the length of a message is not a multiple of 16, its last bytes are XORed with the
encrypted IV. There are many small messages, and setting up a cipher takes longer than using it. So
all blocks of many messages go through AES in one call, and the mode only adds XOR.
"""

from __future__ import annotations

from collections.abc import Sequence

from binlake.source.aes import BLOCK_BYTES, Aes, xor

# A longer message is worth a cipher of its own.
_LONG_BLOCKS = 32


class CbcMode:
    """AES-CBC with one key."""

    def __init__(self, key: bytes) -> None:
        self._aes = Aes(key)

    def decrypt_part(self, iv: bytes, first: int, before: bytes, data: bytes, whole: int) -> bytes:
        """Return the plain text of `data`, which begins at block `first` of a message of `whole`
        bytes.

        `before` is the encrypted block before it, empty for the first. Bytes of an incomplete
        block are left out.
        """
        blocks = len(data) // BLOCK_BYTES * BLOCK_BYTES
        plain = self._aes.decrypt_cbc(before or iv, data[:blocks]) if blocks else b""
        tail = data[blocks:]
        if tail and first * BLOCK_BYTES + len(data) == whole:
            plain += xor(tail, self._aes.encrypt_blocks(iv)[: len(tail)])
        return plain

    def decrypt_all(self, ivs: Sequence[bytes], messages: Sequence[bytes]) -> list[bytes]:
        """Return the plain texts of whole messages, each with its IV."""
        heads: list[bytes] = []
        before: list[bytes] = []
        tails: list[bytes] = []
        for iv, message in zip(ivs, messages, strict=True):
            blocks = len(message) & -BLOCK_BYTES
            heads.append(message[:blocks])
            if blocks:
                before += (iv, message[: blocks - BLOCK_BYTES])
            tails.append(message[blocks:].ljust(BLOCK_BYTES, b"\0"))
        plain = xor(self._aes.decrypt_blocks(b"".join(heads)), b"".join(before))
        ends = xor(b"".join(tails), self._aes.encrypt_blocks(b"".join(ivs)))
        found: list[bytes] = []
        at = end = 0
        for head, message in zip(heads, messages, strict=True):
            size = len(head)
            found.append(plain[at : at + size] + ends[end : end + len(message) - size])
            at += size
            end += BLOCK_BYTES
        return found


class CounterMode(CbcMode):
    """AES-CTR with one key: the IV is the counter of the first block."""

    def decrypt_part(self, iv: bytes, first: int, before: bytes, data: bytes, whole: int) -> bytes:
        return self._aes.decrypt_ctr(_counter(int.from_bytes(iv, "big") + first), 0, data)

    def decrypt_all(self, ivs: Sequence[bytes], messages: Sequence[bytes]) -> list[bytes]:
        counters: list[bytes] = []
        padded: list[bytes] = []
        for iv, message in zip(ivs, messages, strict=True):
            blocks = -(-len(message) // BLOCK_BYTES)
            if blocks <= _LONG_BLOCKS:
                start = int.from_bytes(iv, "big")
                counters += map(_counter, range(start, start + blocks))
                padded.append(message.ljust(blocks * BLOCK_BYTES, b"\0"))
        plain = xor(b"".join(padded), self._aes.encrypt_blocks(b"".join(counters)))
        found: list[bytes] = []
        at = 0
        for iv, message in zip(ivs, messages, strict=True):
            blocks = -(-len(message) // BLOCK_BYTES)
            if blocks <= _LONG_BLOCKS:
                found.append(plain[at : at + len(message)])
                at += blocks * BLOCK_BYTES
            else:
                found.append(self._aes.decrypt_ctr(iv, 0, message))
        return found


def _counter(number: int) -> bytes:
    return (number & ((1 << 128) - 1)).to_bytes(BLOCK_BYTES, "big")
