# cython: boundscheck=False, cdivision=True
"""Sorted keys in a longer array of sorted keys, as the row index of a mirror looks them up.

An index is larger than the processor's caches, so a search mostly waits for memory. The wanted keys are therefore divided into
lanes, which search in turn: while the memory of one lane is on its way, the others go on. A lane begins at the entry that it found
last, and guesses the next one from the difference of the keys: hashes and numbers that a server has assigned are spread evenly.
A wrong guess costs some steps.
"""

from libc.stdint cimport int64_t, uint64_t

from binlake.core.memory.failure cimport Failure
from binlake.core.memory.growing cimport Bytes, detach, release, room

cdef extern from *:
    void __builtin_prefetch(const void* address) noexcept nogil

ctypedef fused Half:
    int64_t
    uint64_t

cdef enum:
    LANES = 16
    # of the average distance between two wanted keys: no guess goes further, as keys may be spread unevenly
    MOST_DISTANCES = 4


def matching_keys(
    const Half[::1] high not None,
    const uint64_t[::1] low,
    const Half[::1] wanted_high not None,
    const uint64_t[::1] wanted_low,
):
    """(number of a wanted key, number of an entry) of every entry that has the key, in no order: two buffers of int64.

    `high` and `wanted_high` ascend. `low` and `wanted_low` are the second halves of the keys, in any order, or both None.
    Raises ValueError for keys that descend and for halves of different lengths, MemoryError.
    """
    cdef Py_ssize_t entries = high.shape[0], wanted = wanted_high.shape[0], number
    cdef bint has_low = low is not None, descends = False
    cdef int failed = 0
    cdef Failure failure
    cdef Bytes numbers, places
    if has_low != (wanted_low is not None):
        raise ValueError("only some of the keys have a second half")
    if has_low and (low.shape[0] != entries or wanted_low.shape[0] != wanted):
        raise ValueError("the halves of the keys have different lengths")
    numbers.at = places.at = NULL
    numbers.count = numbers.capacity = numbers.first = 0
    places.count = places.capacity = places.first = 0
    with nogil:
        for number in range(1, wanted):
            descends |= wanted_high[number] < wanted_high[number - 1]
        if entries and wanted and not descends:
            failed = search(
                &high[0], &low[0] if has_low else NULL, entries,
                &wanted_high[0], &wanted_low[0] if has_low else NULL, wanted,
                &numbers, &places, &failure,
            )
    if failed or descends:
        release(&numbers)
        release(&places)
        raise MemoryError() if failed else ValueError("the wanted keys descend")
    return detach(&numbers), detach(&places)


cdef int search(
    const Half* high, const uint64_t* low, Py_ssize_t entries,
    const Half* wanted_high, const uint64_t* wanted_low, Py_ssize_t wanted,
    Bytes* numbers, Bytes* places, Failure* failure,
) noexcept nogil:
    """Append the matches. `low` is NULL for keys of one number."""
    cdef Py_ssize_t[LANES + 1] begins
    cdef Py_ssize_t[LANES] firsts, guesses
    cdef Py_ssize_t lane, turn, number, at
    cdef Py_ssize_t most = MOST_DISTANCES * (entries // wanted + 1)
    cdef double scale = entries / (<double> (<uint64_t> high[entries - 1] - <uint64_t> high[0]) + 1)
    for lane in range(LANES + 1):
        begins[lane] = wanted * lane // LANES
    for lane in range(LANES):  # also of a lane without keys, the beginning is the number of a key
        firsts[lane] = first_not_less(high, 0, entries, entries * lane // LANES, wanted_high[begins[lane]])
    for turn in range(wanted // LANES + 1):
        for lane in range(LANES):
            number = begins[lane] + turn
            if number < begins[lane + 1] and firsts[lane] < entries:
                guesses[lane] = guess(high, firsts[lane], entries, wanted_high[number], scale, most)
                __builtin_prefetch(&high[guesses[lane]])
        for lane in range(LANES):
            number = begins[lane] + turn
            if number < begins[lane + 1] and firsts[lane] < entries:
                at = first_not_less(high, firsts[lane], entries, guesses[lane], wanted_high[number])
                firsts[lane] = at
                if low != NULL and at < entries:
                    __builtin_prefetch(&low[at])
        for lane in range(LANES):
            number = begins[lane] + turn
            if number < begins[lane + 1]:
                at = firsts[lane]
                while at < entries and high[at] == wanted_high[number]:
                    if low == NULL or low[at] == wanted_low[number]:
                        if room(numbers, 8, failure) or room(places, 8, failure):
                            return -1
                        (<int64_t*> (numbers.at + numbers.count))[0] = number
                        (<int64_t*> (places.at + places.count))[0] = at
                        numbers.count += 8
                        places.count += 8
                    at += 1
    return 0


cdef inline Py_ssize_t guess(
    const Half* high, Py_ssize_t first, Py_ssize_t entries, Half key, double scale, Py_ssize_t most
) noexcept nogil:
    """An entry near the first one that is not less than a key; entries before `first`, which is there, are less."""
    cdef double distance
    cdef Py_ssize_t limit = min(most, entries - 1 - first)
    if key <= high[first]:
        return first
    distance = <double> (<uint64_t> key - <uint64_t> high[first]) * scale
    return first + (limit if distance > limit else <Py_ssize_t> distance)


cdef inline Py_ssize_t first_not_less(
    const Half* high, Py_ssize_t first, Py_ssize_t entries, Py_ssize_t near, Half key
) noexcept nogil:
    """The first entry that is not less than a key, `entries` if all are less. Entries before `first` are less; the search begins at
    the entry `near`, which is not before `first`.
    """
    cdef Py_ssize_t before, step = 1, size, half
    if high[near] < key:
        before = near
        while before + step < entries and high[before + step] < key:
            before += step
            step <<= 1
        size = min(step, entries - before)
    else:
        before = first - 1
        while near - step > before and high[near - step] >= key:
            near -= step
            step <<= 1
        before = max(before, near - step)
        size = near - before
    # entry `before` is less, if there is one; the one that is wanted is at most `size` entries behind it
    while size > 1:
        half = size >> 1
        before = before + half if high[before + half] < key else before
        size -= half
    return before + 1
