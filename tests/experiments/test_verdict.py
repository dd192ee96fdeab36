import pytest

from evigrad.experiments import Outcome, verdict


def outcome(label, values, missing=None, diverged=()):
    return Outcome(label, dict(enumerate(values)), {}, missing or {}, list(diverged))


UNIFORM = outcome("uniform", [0.90, 0.92, 0.91, 0.93], {"a": [0.8] * 4, "b": [0.6] * 4})


def words(*others, own="bogc"):
    return " ".join(verdict([UNIFORM, *others], "uniform", own))


def test_ours_losing_is_said():
    text = words(outcome("bogc", [0.80, 0.82, 0.815, 0.83]))
    assert "bogc is worse than uniform: -9.9 points" in text
    assert "Highest mean accuracy: uniform (91.5 %); lowest: bogc (81.6 %)." in text


def test_ours_winning_is_said():
    text = words(outcome("bogc", [0.95, 0.97, 0.955, 0.98]))
    assert "bogc is better than uniform: +4.9 points" in text


def test_what_the_seeds_cannot_show_is_said():
    text = words(outcome("bogc", [0.95, 0.89, 0.93, 0.90]))
    assert "bogc and uniform: no difference that 4 seeds can show" in text


def test_the_others_are_sorted_by_what_was_shown():
    better, worse = outcome("tmc", [0.95, 0.97, 0.961, 0.98]), outcome("joint", [0.7, 0.72, 0.711, 0.73])
    text = words(outcome("bogc", [0.90, 0.92, 0.91, 0.93]), better, worse, outcome("x", [0.95, 0.89, 0.93, 0.90]))
    assert "Also shown to be better than uniform: tmc (+5.0)." in text
    assert "Also shown to be worse than uniform: joint (-20.0)." in text
    assert "Not told apart from uniform: x." in text


def test_several_comparisons_are_paid_for():
    close = [0.905, 0.924, 0.918, 0.935]
    alone = verdict([UNIFORM, outcome("bogc", close)], "uniform", "bogc")
    many = [outcome(f"m{number}", [0.95, 0.89, 0.93, 0.90]) for number in range(9)]
    assert "bogc is better" in " ".join(alone)
    assert "Holm-adjusted for 10 comparisons" in words(outcome("bogc", close), *many)
    assert "bogc is better" not in words(outcome("bogc", close), *many)


def test_the_costliest_missing_modality():
    assert "uniform loses most without b: 60.0 % (-31.5 points)." in words(outcome("bogc", [0.9] * 4))


def test_divergence_is_said_first():
    text = words(outcome("bogc", [0.9, 0.91, 0.92], diverged=[3]))
    assert text.startswith("bogc diverged on seed 3; that is in none of its numbers, which flatters it.")


@pytest.mark.parametrize(
    ("outcomes", "text"),
    [
        ([outcome("uniform", [], diverged=[0]), outcome("bogc", [0.5])], "uniform has no finished run"),
        ([outcome("uniform", [0.5]), outcome("bogc", [0.5])], "One seed says nothing about differences"),
    ],
)
def test_too_little_to_say_anything(outcomes, text):
    assert text in " ".join(verdict(outcomes, "uniform", "bogc"))
