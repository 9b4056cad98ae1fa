"""The facts about plain transactions that need no row: places, times, server and thread, as columns."""

from libc.stdint cimport int64_t

from binlake.core.events.plain_groups cimport PlainGroups

#: The columns of `run_facts`. `end_pos`, `pos` and `bytes` in the file; `duration_us` from the beginning of the
#: transaction's work to its commit or to its last event; `thread_id` -1: the log does not contain it.
FACTS = ("pos", "end_pos", "bytes", "commit_us", "duration_us", "server_id", "thread_id")

cdef enum:
    _SECOND_US = 1_000_000


def run_facts(PlainGroups groups not None, int64_t low, int64_t high):
    """FACTS of the transactions [low, high), one column after the other in one buffer of int64, and how many of
    them have no thread. Raises IndexError.
    """
    cdef int64_t count = high - low
    cdef int64_t without_thread = 0
    cdef int64_t group, first, last, at, pos, end_pos, commit_us, ended_us
    if not 0 <= low <= high <= groups.count:
        raise IndexError(f"transactions [{low}, {high}) of {groups.count}")
    facts = memoryview(bytearray(8 * len(FACTS) * count)).cast("q")
    cdef int64_t[::1] to = facts
    for group in range(low, high):
        at = group - low
        first = groups.first[group]
        last = groups.last[group] - 1
        pos = groups.block.offset[first]
        end_pos = groups.block.offset[last] + groups.block.length[last]
        commit_us = groups.commit_us[group]
        ended_us = <int64_t>groups.block.timestamp[last] * _SECOND_US
        # the log has the time of the commit in microseconds, but that of the last event in seconds
        ended_us = max(commit_us - commit_us % _SECOND_US, ended_us)
        to[at] = pos
        to[count + at] = end_pos
        to[2 * count + at] = end_pos - pos
        to[3 * count + at] = commit_us
        to[4 * count + at] = max(ended_us - groups.begun_us[group], <int64_t>0)
        to[5 * count + at] = groups.block.server_id[first]
        to[6 * count + at] = groups.thread_id[group]
        without_thread += groups.thread_id[group] < 0
    return facts, without_thread
