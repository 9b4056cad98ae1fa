# cython: boundscheck=False
"""Sorted keys in a longer array of sorted keys, as the row index of a mirror looks them up."""

from libc.stdint cimport int64_t, uint64_t

from binlake.core.memory.failure cimport Failure
from binlake.core.memory.growing cimport Bytes, detach, release, room

ctypedef fused Half:
    int64_t
    uint64_t


def matching_keys(
    const Half[::1] high not None,
    const uint64_t[::1] low,
    const Half[::1] wanted_high not None,
    const uint64_t[::1] wanted_low,
):
    """(number of a wanted key, number of an entry) of every entry that has the key: two buffers of int64.

    `high` and `wanted_high` ascend. `low` and `wanted_low` are the second halves of the keys, in any order, or both None.
    The search for a key begins at the entry that the search before it found: the wanted keys are spread over all entries, so a
    binary search in all of them costs more steps, and more of them outside of the processor's caches.

    Raises ValueError for keys that descend and for halves of different lengths, MemoryError.
    """
    cdef Py_ssize_t entries = high.shape[0], wanted = wanted_high.shape[0]
    cdef Py_ssize_t first = 0, at, number, before, half, size, step
    cdef bint is_half = low is None
    cdef bint descends = False
    cdef Half key
    cdef Failure failure
    cdef Bytes numbers, places
    if is_half != (wanted_low is None):
        raise ValueError("only some of the keys have a second half")
    if not is_half and (low.shape[0] != entries or wanted_low.shape[0] != wanted):
        raise ValueError("the halves of the keys have different lengths")
    numbers.at = places.at = NULL
    numbers.count = numbers.capacity = numbers.first = 0
    places.count = places.capacity = places.first = 0
    with nogil:
        for number in range(wanted):
            key = wanted_high[number]
            if number and key < wanted_high[number - 1]:
                descends = True
                break
            if first < entries and high[first] < key:
                step = 1
                while first + step < entries and high[first + step] < key:
                    first += step
                    step <<= 1
                # high[first] < key; the first entry that is not less is at most `size` entries behind it
                size = min(step, entries - first)
                while size > 1:
                    half = size >> 1
                    first = first + half if high[first + half] < key else first
                    size -= half
                first += 1
            at = first
            while at < entries and high[at] == key:
                if is_half or low[at] == wanted_low[number]:
                    if room(&numbers, 8, &failure) or room(&places, 8, &failure):
                        with gil:
                            release(&numbers)
                            release(&places)
                            raise MemoryError()
                    (<int64_t*>(numbers.at + numbers.count))[0] = number
                    (<int64_t*>(places.at + places.count))[0] = at
                    numbers.count += 8
                    places.count += 8
                at += 1
    if descends:
        release(&numbers)
        release(&places)
        raise ValueError("the wanted keys descend")
    return detach(&numbers), detach(&places)
