"""Which of several processes this one is, before they have met."""

from __future__ import annotations

import os

RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
"""Where torchrun, Fabric's own launcher and SLURM write a process's number, in the order Fabric reads them."""


def is_first_process() -> bool:
    """Whether this process writes files and talks; true outside of any launcher.

    Example:
        >>> is_first_process()
        True
    """
    return next((int(os.environ[name]) for name in RANKS if name in os.environ), 0) == 0
