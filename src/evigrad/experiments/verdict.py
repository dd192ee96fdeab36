"""Plain words on what a comparison shows, made from its numbers alone, whoever wins."""

from __future__ import annotations

from collections.abc import Sequence

from evigrad.experiments.outcome import Comparison, Outcome, compare

LEVEL = 0.05


def verdict(outcomes: Sequence[Outcome], reference: str, own: str) -> list[str]:
    """Sentences on who leads, which differences from ``reference`` the seeds can show, and what ``own`` did.

    Args:
        outcomes: Every method on the same seeds.
        reference: The method that the others are compared with.
        own: The method that this package is about; it gets a sentence whatever the outcome.
    """
    sentences = [_diverged(outcome) for outcome in outcomes if outcome.diverged]
    ranked = sorted((one for one in outcomes if one.accuracy), key=_mean, reverse=True)
    if not ranked or not any(one.label == reference and one.accuracy for one in outcomes):
        return [*sentences, f"{reference} has no finished run, so nothing can be compared with it."]
    sentences.append(_leader(ranked))
    comparisons = compare(outcomes, reference)
    if not comparisons or comparisons[0].difference.runs < 2:
        return [*sentences, "One seed says nothing about differences; run at least two."]
    mine = [one for one in comparisons if one.label == own]
    others = [one for one in comparisons if one.label != own]
    sentences += [_difference(one, reference, len(comparisons)) for one in mine]
    return [*sentences, *_rest(others, reference), *_missing(outcomes, own, reference)]


def _mean(outcome: Outcome) -> float:
    values = list(outcome.accuracy.values())
    return sum(values) / len(values)


def _diverged(outcome: Outcome) -> str:
    seeds = ", ".join(map(str, outcome.diverged))
    return f"{outcome.label} diverged on seed {seeds}; that is in none of its numbers, which flatters it."


def _leader(ranked: Sequence[Outcome]) -> str:
    best, last = ranked[0], ranked[-1]
    if best is last:
        return f"{best.label} has a mean accuracy of {100 * _mean(best):.1f} %."
    return (
        f"Highest mean accuracy: {best.label} ({100 * _mean(best):.1f} %); lowest: {last.label} "
        f"({100 * _mean(last):.1f} %)."
    )


def _difference(one: Comparison, reference: str, comparisons: int) -> str:
    found = one.difference
    if one.p < LEVEL:
        word = "better" if found.mean > 0 else "worse"
        claim = f"{one.label} is {word} than {reference}"
    else:
        claim = f"{one.label} and {reference}: no difference that {found.runs} seeds can show"
    return (
        f"{claim}: {100 * found.mean:+.1f} points, 95 % interval {100 * found.low:+.1f} to {100 * found.high:+.1f}, "
        f"p = {one.p:.2g} (paired by seed, Holm-adjusted for {comparisons} comparisons)."
    )


def _rest(others: Sequence[Comparison], reference: str) -> list[str]:
    shown = {
        "better": [one for one in others if one.p < LEVEL and one.difference.mean > 0],
        "worse": [one for one in others if one.p < LEVEL and one.difference.mean <= 0],
    }
    sentences = []
    for word, found in shown.items():
        if found:
            names = ", ".join(f"{one.label} ({100 * one.difference.mean:+.1f})" for one in found)
            sentences.append(f"Also shown to be {word} than {reference}: {names}.")
    open_ = [one.label for one in others if one.p >= LEVEL]
    if open_:
        sentences.append(f"Not told apart from {reference}: {', '.join(open_)}.")
    return sentences


def _missing(outcomes: Sequence[Outcome], own: str, reference: str) -> list[str]:
    """Which missing modality costs most, for the reference and the own method."""
    sentences = []
    for outcome in outcomes:
        if outcome.label not in (own, reference) or not outcome.missing:
            continue
        means = {name: sum(values) / len(values) for name, values in outcome.missing.items()}
        name = min(means, key=lambda key: means[key])
        drop = 100 * (_mean(outcome) - means[name])
        sentences.append(f"{outcome.label} loses most without {name}: {100 * means[name]:.1f} % ({-drop:+.1f} points).")
    return sentences
