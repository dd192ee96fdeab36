import os
import re
import sys

import pytest
import torch

from evigrad.training import fit, progress
from evigrad.training.progress import BarProgress, PlainProgress, Progress, build_progress
from evigrad.training.totals import TOGETHER, Totals
from tests.training.processes import in_another_process
from tests.training.toy import method, network, settings, views


def test_lines_say_loss_accuracies_pace_and_time_left(tmp_path, capsys):
    fit(network(), method(), views(48), views(20, 1), folder=tmp_path, training=settings(progress="auto"))
    lines = capsys.readouterr().err.splitlines()
    line = r"epoch {}/2  train/loss \d.\d+  train/accuracy .*  validation/accuracy .*"
    modalities = r"own_head/sound \d.\d+  own_head/image \d.\d+  [\d,]+ samples/s  \d+:\d\d left"
    assert len(lines) == 2
    assert all(re.fullmatch(line.format(n + 1) + modalities, text) for n, text in enumerate(lines)), lines


def test_a_bar_shows_the_running_numbers(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_REFRESHES", 0.0)
    fit(network(), method(), views(48), views(20, 1), folder=tmp_path, training=settings(progress="bar"))
    text = capsys.readouterr().err
    assert "epoch 2/2" in text
    assert "train/loss" in text
    assert "samples/s" in text


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_shows_all_numbers(tmp_path, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    fit(network(), method(), views(48), views(20, 1), folder=tmp_path, training=settings(progress="bar"))
    lines = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", capsys.readouterr().err).splitlines()
    text = " ".join(lines)
    assert all(len(line) <= width for line in lines)
    assert re.search(r"epoch 2/2 .*[\d,]+ samples/s, \d:\d\d left", text)
    for name in ("train/loss", "train/accuracy", "validation/accuracy", "own_head/sound", "own_head/image"):
        assert re.search(rf"{name} \d\.\d\d\d", text), name
    assert ("━" in text) == (width == 80)


def test_a_reader_that_goes_away_does_not_end_the_run(tmp_path):
    def piped():
        read, write = os.pipe()
        os.close(read)
        sys.stderr = os.fdopen(write, "w", buffering=1)
        fit(network(), method(), views(48), views(20, 1), folder=tmp_path, training=settings(progress="plain"))
        sys.stderr.flush()

    assert in_another_process(piped) == 0
    assert (tmp_path / "result.json").exists()


def test_silence_is_silent(tmp_path, capsys):
    fit(network(), method(), views(48), views(20, 1), folder=tmp_path, training=settings(progress="none"))
    captured = capsys.readouterr()
    assert captured.err == captured.out == ""


@pytest.mark.parametrize(("terminal", "kind"), [(True, BarProgress), (False, PlainProgress)])
def test_a_bar_needs_a_terminal(monkeypatch, terminal, kind):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    with build_progress("auto", epochs=1, samples=10) as display:
        assert type(display) is kind


def test_time_left_follows_the_pace(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    display = Progress(epochs=2, samples=100, done=50)
    clock[0] += 5
    display.advance(50)
    assert (display.throughput, display.seconds_left) == (10.0, 10.0)
    assert progress._duration(3 * 3600 + 62) == "3:01:02"


def test_totals_equal_a_loop_over_samples():
    generator = torch.Generator().manual_seed(0)
    totals, rows = Totals(("a",), torch.device("cpu")), []
    for size in [3] * TOGETHER + [2]:
        probabilities, own = (torch.rand(size, 4, generator=generator) for _ in range(2))
        target = torch.randint(4, (size,), generator=generator)
        present = torch.rand(size, generator=generator) < 0.6
        loss = torch.rand((), generator=generator)
        totals.add(loss, probabilities, {"a": own}, target, {"a": present})
        for i in range(size):
            hit = float(own[i].argmax() == target[i]) if present[i] else None
            rows.append((loss.item(), float(probabilities[i].argmax() == target[i]), hit))
    hits = [hit for _, _, hit in rows if hit is not None]
    assert totals.means() == pytest.approx(
        {
            "loss": sum(row[0] for row in rows) / len(rows),
            "accuracy": sum(row[1] for row in rows) / len(rows),
            "own_head/a": sum(hits) / len(hits),
        }
    )


def test_totals_do_not_depend_on_when_somebody_looked():
    """Losses this far apart do not add up exactly, so that the order of additions shows."""
    generator = torch.Generator().manual_seed(0)
    losses = (torch.randn(40, generator=generator) * 12).exp()
    watched, alone = Totals((), torch.device("cpu")), Totals((), torch.device("cpu"))
    for number, loss in enumerate(losses):
        for totals in (watched, alone):
            totals.add(loss, torch.eye(3), {}, torch.arange(3), {})
        if number % 3 == 0:
            watched.means()
    assert watched.means() == alone.means()


def test_a_modality_that_was_never_present_has_no_accuracy():
    totals = Totals(("a",), torch.device("cpu"))
    never = torch.zeros(2, dtype=torch.bool)
    totals.add(torch.tensor(1.0), torch.eye(2), {"a": torch.eye(2)}, torch.tensor([0, 1]), {"a": never})
    assert totals.means() == {"loss": 1.0, "accuracy": 1.0}
