"""Each run is begun by its process, or taken back by its worker: never both."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from headrace.worker.processes.start_tokens import EntryMark, StartTokens, TakenTokens, after

TAKER = """
import sys
from headrace.worker.processes.start_tokens import TakenTokens
tokens = TakenTokens(int(sys.argv[1]))
try:
    while True:
        if number := tokens.take():
            print(number)
        else:
            tokens.wait()
except EOFError:
    pass
"""


def test_tokens_come_in_order_and_what_is_left_can_be_taken_back() -> None:
    tokens = StartTokens()
    theirs = TakenTokens(tokens.reader)
    assert (theirs.take(), tokens.take_back(), tokens.left()) == (0, [], 0)
    tokens.put([1, 2, 3, 4])
    assert (theirs.take(), theirs.take(), tokens.left()) == (1, 2, 2)
    assert tokens.take_back() == [3, 4]
    assert theirs.take() == 0
    tokens.put([4])
    assert theirs.take() == 4
    tokens.close()


def test_each_token_goes_to_one_of_two() -> None:
    tokens = StartTokens()
    taker = subprocess.Popen(
        [sys.executable, "-c", TAKER, str(tokens.reader)],
        pass_fds=[tokens.reader],
        stdout=subprocess.PIPE,
        text=True,
    )
    back: list[int] = []
    for number in range(1, 5001):
        tokens.put([number])
        if number % 3 == 0:
            back += tokens.take_back()
    while tokens.left():
        pass
    tokens.close()
    theirs = [int(line) for line in taker.communicate()[0].split()]
    assert sorted(back + theirs) == list(range(1, 5001))
    assert theirs == sorted(theirs)


def test_a_worker_that_leaves_ends_the_wait() -> None:
    tokens = StartTokens()
    copy = os.dup(tokens.reader)
    theirs = TakenTokens(copy)
    tokens.close()
    theirs.wait()
    with pytest.raises(EOFError):
        theirs.take()
    os.close(copy)


def test_numbers_begin_again_and_none_is_zero() -> None:
    assert after(0) == 1
    assert after(2**32 - 1) == 1


def test_a_worker_reads_what_its_process_has_entered() -> None:
    ours = EntryMark()
    assert ours.read() == (0, 0.0)
    theirs = EntryMark(os.dup(ours.descriptor))
    theirs.write(7, 12.5)
    assert ours.read() == (7, 12.5)
    assert not ours.had_set_up(8)
    theirs.begin_set_up(8)
    assert ours.had_set_up(8)
    assert ours.read() == (7, 12.5)
    theirs.close()
    ours.close()
