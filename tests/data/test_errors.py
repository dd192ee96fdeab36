import pickle

import pytest

from evigrad.data import DataReportError
from evigrad.data.errors import nearest, require


def test_nearest_name_and_all_names():
    error = nearest("data set", "digit", ["digits", "views"])
    assert str(error) == "unknown data set 'digit'. Did you mean 'digits'? Known: digits, views"
    assert str(nearest("data set", "qqqq", ["digits"])) == "unknown data set 'qqqq'. Known: digits"
    assert str(nearest("view", "x", [])) == "unknown view 'x'. Known: none"


def test_a_report_lists_everything():
    error = DataReportError("a.csv", ["row 1: bad", "row 2: worse"])
    assert str(error) == "a.csv: 2 problems\n  row 1: bad\n  row 2: worse"
    assert str(DataReportError("a.csv", ["x"])).startswith("a.csv: 1 problem\n")
    assert pickle.loads(pickle.dumps(error)).problems == error.problems


def test_missing_packages_name_the_extra():
    assert require("json", "train").loads("1") == 1
    with pytest.raises(ImportError, match=r"this needs absent, which is not installed: pip install 'evigrad\[table\]'"):
        require("absent.part", "table")
