"""The watchdog kills what the demo left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from gantrymq.demo.watchdog import kill_group, watch


def test_what_is_watched_and_not_forgotten_is_left_for_killing() -> None:
    assert watch(["watch 10\n", "watch 11\n", "forget 10\n"]) == {11}


def test_lines_that_were_cut_off_are_ignored() -> None:
    assert watch(["watch 10\n", "wat", "watch", "watch x\n", "forget\n"]) == {10}


def test_killing_a_group_that_is_gone_is_harmless() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    child.wait()
    kill_group(child.pid)


def test_the_end_of_its_input_ends_the_watched_processes() -> None:
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    dog = subprocess.Popen(
        [sys.executable, "-m", "gantrymq.demo.watchdog"], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        assert dog.stdin is not None
        dog.stdin.write(f"watch {victim.pid}\n".encode())
        dog.stdin.flush()
        os.kill(dog.pid, signal.SIGCONT)
        assert victim.poll() is None
        dog.stdin.close()
        assert victim.wait(30) == -signal.SIGKILL
        assert dog.wait(30) == 0
    finally:
        kill_group(victim.pid)
