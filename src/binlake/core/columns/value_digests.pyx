# cython: boundscheck=False
"""BLAKE2b (RFC 7693) of each value of a column, with digests of 16 bytes, as `hashlib.blake2b` computes them.

The key index hashes millions of short values, which a user of the server must not be able to choose so that two collide.
A call of hashlib for each takes three times as long.
"""

from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

cdef enum:
    _DIGEST_BYTES = 16
    _BLOCK_BYTES = 128
    _ROUNDS = 12

DIGEST_BYTES = _DIGEST_BYTES

cdef uint64_t[8] _IV = [
    0x6A09E667F3BCC908, 0xBB67AE8584CAA73B, 0x3C6EF372FE94F82B, 0xA54FF53A5F1D36F1,
    0x510E527FADE682D1, 0x9B05688C2B3E6C1F, 0x1F83D9ABFB41BD6B, 0x5BE0CD19137E2179,
]
cdef uint8_t[12][16] _SIGMA = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
]


def value_digests(const int32_t[::1] offsets not None, const uint8_t[::1] data not None):
    """The digests of the values whose bytes are `data[offsets[i]:offsets[i + 1]]`, one after the other.

    Raises IndexError for offsets that descend or leave the data.
    """
    cdef Py_ssize_t count = offsets.shape[0] - 1
    cdef Py_ssize_t at
    cdef int32_t low, high
    if count < 1:
        return bytearray()
    if offsets[0] < 0:
        raise IndexError(f"offset {offsets[0]}")
    for at in range(count):
        if offsets[at + 1] < offsets[at]:
            raise IndexError(f"offset {offsets[at + 1]} after {offsets[at]}")
    if offsets[count] > data.shape[0]:
        raise IndexError(f"offset {offsets[count]} of {data.shape[0]} bytes")
    digests = bytearray(_DIGEST_BYTES * count)
    cdef uint8_t[::1] out = digests
    cdef const uint8_t* first = &data[0] if data.shape[0] else NULL
    with nogil:
        for at in range(count):
            low, high = offsets[at], offsets[at + 1]
            _digest(first + low, high - low, &out[_DIGEST_BYTES * at])
    return digests


cdef void _digest(const uint8_t* data, Py_ssize_t length, uint8_t* out) noexcept nogil:
    """The 16 bytes of one value."""
    cdef uint64_t[8] state
    cdef uint64_t[16] block
    cdef uint64_t hashed = 0
    memcpy(state, _IV, sizeof(state))
    state[0] ^= 0x01010000 | _DIGEST_BYTES  # no key, one leaf
    while length > _BLOCK_BYTES:
        memcpy(block, data, _BLOCK_BYTES)
        hashed += _BLOCK_BYTES
        _compress(state, block, hashed, 0)
        data += _BLOCK_BYTES
        length -= _BLOCK_BYTES
    memset(block, 0, sizeof(block))
    if length:
        memcpy(block, data, length)
    _compress(state, block, hashed + <uint64_t>length, <uint64_t>0xFFFFFFFFFFFFFFFF)
    memcpy(out, state, _DIGEST_BYTES)


cdef void _compress(uint64_t* state, const uint64_t* block, uint64_t hashed, uint64_t last) noexcept nogil:
    """Take one block: `hashed` bytes with it, `last` all bits set for the last one. Values end before 2^31 bytes."""
    cdef uint64_t[16] v
    cdef const uint8_t* s
    cdef int i
    for i in range(8):
        v[i] = state[i]
        v[i + 8] = _IV[i]
    v[12] ^= hashed
    v[14] ^= last
    for i in range(_ROUNDS):
        s = _SIGMA[i]
        _mix(&v[0], &v[4], &v[8], &v[12], block[s[0]], block[s[1]])
        _mix(&v[1], &v[5], &v[9], &v[13], block[s[2]], block[s[3]])
        _mix(&v[2], &v[6], &v[10], &v[14], block[s[4]], block[s[5]])
        _mix(&v[3], &v[7], &v[11], &v[15], block[s[6]], block[s[7]])
        _mix(&v[0], &v[5], &v[10], &v[15], block[s[8]], block[s[9]])
        _mix(&v[1], &v[6], &v[11], &v[12], block[s[10]], block[s[11]])
        _mix(&v[2], &v[7], &v[8], &v[13], block[s[12]], block[s[13]])
        _mix(&v[3], &v[4], &v[9], &v[14], block[s[14]], block[s[15]])
    for i in range(8):
        state[i] ^= v[i] ^ v[i + 8]


cdef inline void _mix(
    uint64_t* a, uint64_t* b, uint64_t* c, uint64_t* d, uint64_t x, uint64_t y
) noexcept nogil:
    a[0] += b[0] + x
    d[0] = _turned(d[0] ^ a[0], 32)
    c[0] += d[0]
    b[0] = _turned(b[0] ^ c[0], 24)
    a[0] += b[0] + y
    d[0] = _turned(d[0] ^ a[0], 16)
    c[0] += d[0]
    b[0] = _turned(b[0] ^ c[0], 63)


cdef inline uint64_t _turned(uint64_t value, int bits) noexcept nogil:
    """The bits, rotated to the right."""
    return (value >> bits) | (value << (64 - bits))
