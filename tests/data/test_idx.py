import gzip

import numpy as np
import pytest

from evigrad.data import DataError
from evigrad.data.idx import read_idx
from tests.data.files import write_idx


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("shape", [(5,), (3, 4, 2)])
def test_reads_what_was_written(tmp_path, shape, ending):
    array = np.random.default_rng(0).integers(0, 256, shape)
    assert read_idx(write_idx(tmp_path / f"x{ending}", array)).tolist() == array.tolist()


def test_broken_files_are_named(tmp_path):
    path = write_idx(tmp_path / "x.gz", np.zeros((3, 4)))
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"x.gz: not readable \(.*\); fetch it again"):
        read_idx(path)
    path.write_bytes(b"<html>")
    with pytest.raises(DataError, match=r"x.gz: not readable"):
        read_idx(path)
    plain = write_idx(tmp_path / "y", np.zeros((3, 4)))
    plain.write_bytes(plain.read_bytes()[:-2])
    with pytest.raises(DataError, match=r"y: 10 bytes for shape \(3, 4\), which needs 12; fetch it again"):
        read_idx(plain)
    plain.write_bytes(b"PK\x03\x04")
    with pytest.raises(DataError, match="y: it does not begin like an IDX file"):
        read_idx(plain)
    plain.write_bytes(gzip.compress(b""))
    with pytest.raises(DataError, match="y: it does not begin like an IDX file"):
        read_idx(plain)
    write_idx(plain, np.zeros((0, 4)))
    with pytest.raises(DataError, match=r"y: shape \(0, 4\) holds no value; fetch the original file"):
        read_idx(plain)
    with pytest.raises(DataError, match="gone: not readable"):
        read_idx(tmp_path / "gone")
