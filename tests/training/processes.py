"""Work in forked processes, which start at once and may be killed."""

import os
import socket
import sys
import warnings
from collections.abc import Callable


def start(work: Callable[[], object]) -> int:
    """Begin ``work`` in a forked process; returns its id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork beside threads: none of ours is running
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    return child


def wait(child: int) -> int:
    """The exit code of a process from :func:`start`, negative for the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_another_process(work: Callable[[], object]) -> int:
    """Run ``work`` in a forked process; returns its exit code."""
    return wait(start(work))


def in_ranks(count: int, work: Callable[[int], object]) -> list[int]:
    """Run ``work(rank)`` in ``count`` processes with the environment torchrun would give them; their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def ranked(rank: int) -> object:
        place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "GROUP_RANK": 0}
        rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test"}
        os.environ.update({name: str(value) for name, value in {**place, **rendezvous}.items()})
        return work(rank)

    return [wait(child) for child in [start(lambda rank=rank: ranked(rank)) for rank in range(count)]]
