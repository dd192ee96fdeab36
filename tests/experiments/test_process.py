import pytest

from evigrad.experiments import is_first_process
from evigrad.experiments.process import RANKS


@pytest.mark.parametrize("name", RANKS)
def test_a_launchers_number_counts(monkeypatch, name):
    for other in RANKS:
        monkeypatch.delenv(other, raising=False)
    assert is_first_process()
    monkeypatch.setenv(name, "1")
    assert not is_first_process()
    monkeypatch.setenv(name, "0")
    assert is_first_process()


def test_the_number_in_the_whole_job_counts_more_than_that_on_the_node(monkeypatch):
    monkeypatch.setenv("RANK", "4")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert not is_first_process()
