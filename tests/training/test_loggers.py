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
    run, started = FakeRun(), []
    fake = types.SimpleNamespace(init=lambda **options: started.append(options) or run)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    train(tmp_path / "run", "wandb")
    assert (started[0]["project"], started[0]["resume"]) == ("evigrad", "allow")
    assert started[0]["name"] == f"{tmp_path.name}/run"
    assert started[0]["config"]["training"]["batch_size"] == 16
    assert [step for step, numbers in run.logged if "validation/accuracy" in numbers] == [3, 6]
    assert run.finished
    for folder in ("run", "other"):
        (tmp_path / folder).mkdir(exist_ok=True)
        build_loggers(["wandb"], tmp_path / folder, {})
    assert started[0]["id"] == started[1]["id"] != started[2]["id"]


def test_mlflow_is_spoken_to_as_it_expects(tmp_path, monkeypatch):
    calls = []
    names = ("set_experiment", "start_run", "log_dict", "log_metrics", "end_run")
    started = types.SimpleNamespace(info=types.SimpleNamespace(run_id="abc"))
    fake = types.SimpleNamespace(**{n: lambda *a, n=n, **k: calls.append((n, a, k)) or started for n in names})
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    train(tmp_path / "run", "mlflow")
    assert [name for name, _, _ in calls][:3] == list(names[:3])
    assert calls[1][2] == {"run_id": None, "run_name": f"{tmp_path.name}/run"}
    assert calls[-1][0] == "end_run"
    assert sum("validation/accuracy" in a[0] for n, a, _ in calls if n == "log_metrics") == 2
    calls.clear()
    build_loggers(["mlflow"], tmp_path / "run", {})
    assert calls[1:] == [("start_run", (), {"run_id": "abc", "run_name": None})]


def test_a_service_that_refuses_is_no_defect_of_ours(tmp_path, monkeypatch):
    def init(**options):
        raise RuntimeError("no API key.")

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    with pytest.raises(
        ValueError, match=r"the logger 'wandb' could not start: no API key\. Mend its settings, then resume"
    ):
        train(tmp_path / "run", "wandb")
    training = settings()
    result = fit(
        network(), method("mmpareto"), views(48), views(20, 1), folder=tmp_path / "run", training=training, resume=True
    )
    assert result.epochs == 2
