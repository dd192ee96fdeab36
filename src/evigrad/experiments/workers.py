"""Processes that work through a list of items; each talks to this one on a pipe of its own.

They share no queue and no lock, so that any of them may be stopped or killed at any moment and the others never wait
for it: with a pool's common queue, a worker that ends while it holds the lock leaves all others waiting for ever.
"""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from types import FrameType
from typing import Generic, TypeVar

import torch

Item = TypeVar("Item")

SECONDS_BETWEEN_TICKS = 0.2


class Worker(Generic[Item]):
    """A process that does ``work`` on one item at a time."""

    def __init__(self, work: Callable[[Item], None], threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, work, threads))
        with _ignoring(signal.SIGINT):  # inherited: a worker that is still importing isn't torn apart by Ctrl-C
            self.process.start()
        theirs.close()

    def begin(self, item: Item) -> None:
        """Hand over the next item."""
        self.item = item
        with suppress(BrokenPipeError):  # it died before it could begin; end() says so
            self.pipe.send(item)

    def end(self) -> Item:
        """The item that was worked on; raises what the work raised, or that the process died."""
        try:
            error = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            raise RuntimeError(
                f"a worker process died with exit code {self.process.exitcode} (killed, or out of memory?) during "
                f"{self.item}. What was finished is kept: start again to go on, with fewer jobs if memory is short."
            ) from None
        if error is not None:
            raise error
        return self.item


def in_processes(
    work: Callable[[Item], None],
    items: Sequence[Item],
    jobs: int,
    threads: int = 1,
    finished: Callable[[Item], None] = lambda item: None,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Do ``work``, a function of a module, on all ``items`` in ``jobs`` processes.

    Args:
        work: Gets SIGTERM when the others shall stop; what it has not handled by then ends the process.
        items: What to work on, in this order.
        jobs: Processes.
        threads: Of torch in each process.
        finished: Called here with each item that is done.
        tick: Called here several times a second.

    Raises:
        KeyboardInterrupt: After SIGINT or SIGTERM, when all processes have ended.
        RuntimeError: A process died.
        Exception: What ``work`` raised, when all processes have ended.
    """
    waiting, workers = deque(items), []
    with _interruptible():
        try:
            workers = [Worker(work, threads) for _ in range(min(jobs, len(items)))]
            for worker in workers:
                worker.begin(waiting.popleft())
            _collect(workers, waiting, finished, tick)
        except BaseException:
            for worker in workers:
                worker.process.terminate()
            raise
        finally:
            for worker in workers:
                worker.pipe.close()  # an idle worker ends when it reads this
                worker.process.join()


def _collect(
    workers: Sequence[Worker[Item]],
    waiting: deque[Item],
    finished: Callable[[Item], None],
    tick: Callable[[], None],
) -> None:
    busy = list(workers)
    while busy:
        ready = wait([worker.pipe for worker in busy], SECONDS_BETWEEN_TICKS)
        for worker in [one for one in busy if one.pipe in ready]:
            finished(worker.end())
            if waiting:
                worker.begin(waiting.popleft())
            else:
                busy.remove(worker)
        tick()


def _serve(pipe: Connection, work: Callable[[Item], None], threads: int) -> None:
    torch.set_num_threads(threads)
    try:
        while True:
            pipe.send(_attempt(work, pipe.recv()))
    except (EOFError, OSError):  # the parent has nothing more to do, or is gone
        return


def _attempt(work: Callable[[Item], None], item: Item) -> Exception | None:
    """The error that ``work`` ends with, in a form that can be sent; its traceback comes along as a note."""
    try:
        work(item)
    except Exception as error:
        error.add_note(traceback.format_exc())
        try:
            ForkingPickler.loads(ForkingPickler.dumps(error))
        except Exception:
            return RuntimeError(f"{type(error).__name__}: {error}")
        return error
    return None


@contextmanager
def _ignoring(number: signal.Signals) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM, too, arrives as a KeyboardInterrupt."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
