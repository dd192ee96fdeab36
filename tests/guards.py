"""Fixtures that police the tests: what one changes for the process, the next would inherit."""

import gc
import os
import random
import sys
import threading
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist

# Set by frameworks for their own use at import or set-up, out of the reach of the test that uses them.
FRAMEWORKS = ("ACCELERATE_", "KMP_", "PYTEST_", "PYTORCH_NVML_", "TORCHINDUCTOR_", "TORCH_", "TRITON_")
GRACE = 2.0  # seconds that a thread which was told to end may take


def environment() -> dict[str, str]:
    """The variables that a test is answerable for."""
    return {name: value for name, value in os.environ.items() if not name.startswith(FRAMEWORKS)}


def threads() -> set[threading.Thread]:
    """All but tqdm's monitor, one daemon for the whole process that the first progress bar starts."""
    return {thread for thread in threading.enumerate() if type(thread).__name__ != "TMonitor"}


def leaked_threads(before: set[threading.Thread]) -> list[str]:
    """The names of the threads that outlive a test."""
    if threads() <= before:
        return []
    gc.collect()  # an executor or loader ends its threads when it is collected
    for thread in threads() - before:
        thread.join(GRACE)
    return sorted(thread.name for thread in threads() - before)


def leaked_variables(before: dict[str, str]) -> list[str]:
    """The variables that a test set, changed or removed."""
    after = environment()
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fails a test that leaks environment variables, threads or a process group, and cleans up after it."""
    everything, variables, running = dict(os.environ), environment(), threads()
    yield
    leaks = []
    if names := leaked_variables(variables):
        leaks.append(f"environment variables {names} (use monkeypatch.setenv)")
    os.environ.clear()
    os.environ.update(everything)
    if dist.is_available() and dist.is_initialized():
        leaks.append("an initialised process group (call torch.distributed.destroy_process_group)")
        dist.destroy_process_group()
    if names := leaked_threads(running):
        leaks.append(f"threads {names} (join or shut them down)")
    if leaks:
        pytest.fail("the test leaves behind: " + "; ".join(leaks), pytrace=False)


@pytest.fixture(autouse=True)
def restores_global_state() -> Iterator[None]:
    """Puts random states, default dtype, threads and determinism back, so that no test depends on another."""
    dtype, count, deterministic = (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
    )
    states = random.getstate(), torch.random.get_rng_state()
    numpy = sys.modules.get("numpy")  # looked up, not imported: most tests run without
    legacy = numpy.random.get_state() if numpy else None
    yield
    random.setstate(states[0])
    torch.random.set_rng_state(states[1])
    if numpy and legacy:
        numpy.random.set_state(legacy)
    torch.set_default_dtype(dtype)
    torch.set_num_threads(count)
    if torch.are_deterministic_algorithms_enabled() != deterministic:  # the setter imports the compiler: a second
        torch.use_deterministic_algorithms(deterministic)
