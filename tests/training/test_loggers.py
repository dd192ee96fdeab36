import sys
import types

import pytest

from evigrad.training import fit
from evigrad.training.loggers import build_loggers, require_loggers
from tests.training.toy import method, network, settings, views


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_a_missing_package_names_the_extra(tmp_path, monkeypatch, name):
    for module in (name, "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"the logger '{name}' needs .* pip install 'evigrad\[tracking\]'"):
        build_loggers([name], tmp_path, {})
    with pytest.raises(ImportError, match=rf"the logger '{name}' needs the package .* pip install 'evigrad"):
        require_loggers([name])


def test_a_missing_package_is_known_before_a_run_begins(tmp_path, monkeypatch):
    """Begun, it could neither go on without its logger nor be begun again."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ImportError, match="the logger 'wandb' needs the package wandb"):
        train(tmp_path / "run", "wandb")
    assert not (tmp_path / "run").exists()


def train(folder, logger):
    training = settings(loggers=(logger,))
    return fit(network(), method("mmpareto"), views(48), views(20, 1), folder=folder, training=training)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # tensorboard's own
def test_tensorboard_gets_what_the_csv_file_gets(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    train(tmp_path, "tensorboard")
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert len(events.Scalars("step/loss")) == 6
    assert [event.step for event in events.Scalars("validation/accuracy")] == [3, 6]
    assert "diagnostics/cosine/sound" in events.Tags()["scalars"]


class FakeRun:
    def __init__(self):
        self.logged, self.finished = [], False

    def log(self, numbers, step):
        self.logged.append((step, numbers))

    def finish(self):
        self.finished = True


def test_weights_and_biases_is_spoken_to_as_it_expects(tmp_path, monkeypatch):
    run, started = FakeRun(), {}
    fake = types.SimpleNamespace(init=lambda **options: started.update(options) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    train(tmp_path / "run", "wandb")
    assert (started["project"], started["id"], started["resume"]) == ("evigrad", "run", "allow")
    assert started["config"]["training"]["batch_size"] == 16
    assert [step for step, numbers in run.logged if "validation/accuracy" in numbers] == [3, 6]
    assert run.finished


def test_mlflow_is_spoken_to_as_it_expects(tmp_path, monkeypatch):
    calls = []
    names = ("set_experiment", "start_run", "log_dict", "log_metrics", "end_run")
    fake = types.SimpleNamespace(**{n: lambda *a, n=n, **k: calls.append((n, a, k)) for n in names})
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    train(tmp_path / "run", "mlflow")
    assert [name for name, _, _ in calls][:3] == list(names[:3])
    assert calls[-1][0] == "end_run"
    assert sum("validation/accuracy" in a[0] for n, a, _ in calls if n == "log_metrics") == 2
