import dataclasses
import inspect

import pytest
from jsonargparse import ArgumentParser

from evigrad.training import Hardware, Optimizer, Schedule, Selection, Training

MISTAKES = [
    (lambda: Optimizer("sdg"), r"optimizer.name='sdg' is not known. Did you mean 'sgd'\? Choose one of: sgd, adamw"),
    (lambda: Optimizer(learning_rate=-1), "optimizer.learning_rate must be at least 0, got -1"),
    (lambda: Optimizer(weight_decay=float("nan")), "optimizer.weight_decay must be at least 0, got nan"),
    (lambda: Schedule("cosin"), "schedule.name='cosin' is not known. Did you mean 'cosine'"),
    (lambda: Schedule(every=0), "schedule.every must be at least 1, got 0"),
    (lambda: Schedule(warmup_epochs=-1), "schedule.warmup_epochs must be at least 0, got -1"),
    (lambda: Selection("bests"), "selection.keep='bests' is not known. Did you mean 'best'"),
    (lambda: Selection(metric="f1_makro"), "selection.metric='f1_makro' is not known. Did you mean 'f1_macro'"),
    (lambda: Selection(metric="loss"), "selection.metric='loss' is not known. .*Choose one of: accuracy, f1_macro"),
    (lambda: Training(clip_norm=float("nan")), "clip_norm must be positive, got nan"),
    (lambda: Selection(patience=0), "selection.patience must be at least 1, got 0"),
    (lambda: Training(epochs=0), "epochs must be at least 1, got 0"),
    (lambda: Training(accumulate=0), "accumulate must be at least 1, got 0"),
    (lambda: Training(checkpoint_every=-1), "checkpoint_every must be at least 0, got -1"),
    (lambda: Training(progress="bra"), "progress='bra' is not known. Did you mean 'bar'"),
    (lambda: Training(loggers=("tensorbord",)), "loggers='tensorbord' is not known. Did you mean 'tensorboard'"),
    (lambda: Training(clip_norm=0.0), "clip_norm must be positive, got 0.0. Use None to switch clipping off"),
    (lambda: Training(ema_decay=1.0), "ema_decay must lie between 0 and 1, got 1.0. Use None for no average"),
    (lambda: Training(modality_dropout=1.0), r"modality_dropout must lie in \[0, 1\), got 1.0: one has to stay"),
]


@pytest.mark.parametrize(("make", "text"), MISTAKES, ids=[text[:25] for _, text in MISTAKES])
def test_mistakes_are_explained(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize("kind", [Optimizer, Schedule, Selection, Hardware, Training])
def test_every_field_says_why_its_default(kind):
    text = inspect.getdoc(kind)
    for field in dataclasses.fields(kind):
        assert f"    {field.name}: " in text, field.name


def test_a_command_line_can_be_made_of_it():
    parser = ArgumentParser()
    parser.add_class_arguments(Training, "training")
    given = ["--training.epochs=3", "--training.optimizer.name=adamw", "--training.loggers=[tensorboard]"]
    instantiate = getattr(parser, "instantiate", None) or parser.instantiate_classes  # its name until 4.49
    made = instantiate(parser.parse_args(given)).training
    assert (made.epochs, made.optimizer.name, tuple(made.loggers)) == (3, "adamw", ("tensorboard",))
    assert made.batch_size == 64


def test_smaller_is_better_for_losses_and_errors_only():
    assert [Selection(metric=name).larger_is_better for name in ("accuracy", "f1_macro", "nll", "ece")] == [
        True,
        True,
        False,
        False,
    ]
