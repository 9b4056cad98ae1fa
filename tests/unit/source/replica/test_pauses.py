"""Pauses before connections to a server that breaks off again and again."""

from __future__ import annotations

import time

import pytest

from binlake.source.replica.pauses import Pauses


class Clock:
    """A clock that only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def pause(self, pauses: Pauses, connected_s: float) -> float:
        pauses.connected()
        self.now += connected_s
        pause = pauses.next_s()
        self.now += pause
        return pause


def test_pauses_grow_even_if_each_connection_delivers(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = Clock(monkeypatch), Pauses(0.5, 30)
    found = [clock.pause(pauses, 0.3) for _ in range(10)]
    for number, pause in enumerate(found):
        longest = min(30, 0.5 * 2**number)
        assert longest / 2 <= pause <= longest


def test_pauses_begin_again_after_a_lasting_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = Clock(monkeypatch), Pauses(0.5, 30)
    assert [clock.pause(pauses, 0.3) for _ in range(10)][-1] >= 15
    assert clock.pause(pauses, 6) <= 0.5


def test_pauses_grow_while_nothing_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = Clock(monkeypatch), Pauses(0.5, 30)
    found = []
    for _ in range(8):
        clock.now += 10  # the time of a connection that fails
        found.append(pauses.next_s())
    assert found[-1] >= 15


def test_all_servers_are_tried_before_pauses_grow() -> None:
    pauses = Pauses(1, 30)
    assert [pauses.next_s(servers=3) <= 1 for _ in range(3)] == [True] * 3
    assert pauses.next_s(servers=3) >= 1
