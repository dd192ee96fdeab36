"""What holds for every test: one thread, the same random draws every time, and nothing left behind."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: it reads this once

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.guards import leaves_nothing_behind, restores_global_state

__all__ = ["leaves_nothing_behind", "real_data", "restores_global_state"]

torch.set_num_threads(1)
settings.register_profile("ci", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real releases; the tests that need it are skipped where it isn't."""
    folder = os.environ.get("EVIGRAD_DATA")
    if not folder:
        pytest.skip("EVIGRAD_DATA does not name a folder with real data")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"EVIGRAD_DATA={folder!r} is not a folder: unset it, or name the folder of the real data")
    return path
