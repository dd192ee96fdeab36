import os
import signal
import time

import pytest

from evigrad.experiments.workers import Worker, in_processes

FOREVER = 600


class UnsendableError(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def note(path):
    path.write_text(str(os.getpid()))


def fail(path):
    note(path)
    if path.name == "bad":
        raise ValueError("nothing there. Look elsewhere.")
    time.sleep(FOREVER)


def fail_unsendably(path):
    raise UnsendableError("one", "two")


def die(path):
    os.kill(os.getpid(), signal.SIGKILL)


def wait(path):
    note(path)
    time.sleep(FOREVER)


def tell(path):
    """Ends as a run does: it is asked to stop, saves, and leaves."""

    def leave(number, frame):
        path.with_suffix(".saved").touch()
        raise SystemExit(75)

    signal.signal(signal.SIGTERM, leave)
    wait(path)


def is_gone(path):
    """No process has the number that was noted: it was waited for."""
    try:
        os.kill(int(path.read_text()), 0)
    except ProcessLookupError:
        return True
    return False


def interrupt_when_all_run(paths):
    def tick():
        if all(path.exists() and path.read_text() for path in paths):
            raise KeyboardInterrupt

    return tick


@pytest.mark.slow
def test_every_item_is_worked_on_once_by_as_many_processes_as_asked_for(tmp_path):
    paths = [tmp_path / str(number) for number in range(5)]
    seen = []
    in_processes(note, paths, jobs=2, finished=seen.append)
    assert sorted(seen) == paths
    workers = {path.read_text() for path in paths}
    assert 1 <= len(workers) <= 2
    assert str(os.getpid()) not in workers
    assert all(is_gone(path) for path in paths)


@pytest.mark.slow
def test_an_error_is_raised_here_and_ends_the_others(tmp_path):
    paths = [tmp_path / "bad", tmp_path / "good"]
    with pytest.raises(ValueError, match=r"nothing there\. Look elsewhere\.") as caught:
        in_processes(fail, paths, jobs=2)
    assert "in fail" in caught.value.__notes__[0]  # where it came from
    assert not paths[1].exists() or is_gone(paths[1])


@pytest.mark.slow
def test_an_error_that_cannot_be_sent_is_told_all_the_same(tmp_path):
    with pytest.raises(RuntimeError, match="UnsendableError: one"):
        in_processes(fail_unsendably, [tmp_path / "x"], jobs=1)


@pytest.mark.slow
def test_a_process_that_dies_is_named_with_what_it_worked_on(tmp_path):
    with pytest.raises(RuntimeError, match=r"died with exit code -9 .* during .*/x\. What was finished is kept"):
        in_processes(die, [tmp_path / "x"], jobs=1)


@pytest.mark.slow
@pytest.mark.parametrize("work", [wait, tell])
def test_stopping_ends_every_process(tmp_path, work):
    paths = [tmp_path / name for name in "ab"]
    with pytest.raises(KeyboardInterrupt):
        in_processes(work, paths, jobs=2, tick=interrupt_when_all_run(paths))
    assert all(is_gone(path) for path in paths)
    if work is tell:
        assert all(path.with_suffix(".saved").exists() for path in paths)


@pytest.mark.slow
def test_a_process_that_dies_before_it_could_begin_is_named(tmp_path):
    worker = Worker(die, threads=1)
    worker.process.kill()
    worker.process.join()
    worker.begin(tmp_path / "x")
    with pytest.raises(RuntimeError, match=r"died with exit code -9 .* during .*/x\. What was finished is kept"):
        worker.end()
    worker.pipe.close()
