"""Prints the exact pins of the environment it runs in (see "Moving the pins" in CONTRIBUTING.md)."""

import re
from importlib.metadata import distributions
from pathlib import Path

HEADER = """\
# The exact versions that every make target installs (pip install -c); pyproject.toml holds the ranges.
# Printed by tools/pins.py; see "Moving the pins" in CONTRIBUTING.md.
"""
ORACLES = Path(__file__).resolve().parent.parent / "oracles.txt"
# Not ours to pin: the project, the installer, and what only some builds of torch bring along.
UNPINNED = re.compile(r"evigrad|pip|wheel|torchvision|triton|nvidia-.*|cuda-.*")


def normalized(name: str) -> str:
    """One spelling a package, as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins() -> list[str]:
    """Every installed package as `name==version` without a build's own suffix, torch first."""
    oracles = {normalized(line.split("==")[0]) for line in ORACLES.read_text().splitlines() if "==" in line}
    versions = {normalized(d.metadata["Name"]): d.version.split("+")[0] for d in distributions()}
    names = [name for name in versions if name not in oracles and not UNPINNED.fullmatch(name)]
    return [f"{name}=={versions[name]}" for name in sorted(names, key=lambda name: (name != "torch", name))]


if __name__ == "__main__":
    print(HEADER + "\n".join(pins()))
