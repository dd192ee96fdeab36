"""The tables of the page, each from recorded repetitions."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from benchmarks import REFRESH
from benchmarks.measure import interval, slope

Record = dict[str, Any]


def whole_step(records: dict[str, Record]) -> str:
    """Ratios of a calibrated to a plain training step."""
    rows = []
    for run, case in _cases(records["whole_step"]):
        steady = [_cycle(cycle, "calibrated") / _cycle(cycle, "plain") for cycle in case["cycles"]]
        first = [pair["calibrated"] / pair["plain"] for pair in case["first"]]
        accounted = [1 + _longer(cycle) / _cycle(cycle, "plain") for cycle in case["cycles"]]
        plain = median(pair["plain"] for cycle in case["cycles"] for pair in cycle.values())
        ratios = [_spread(each) for each in (steady, first, accounted)]
        rows.append([run["threads"], case["samples"], f"{plain:.2f} s", *ratios])
    head = ["threads", "B", "plain step", "ratio, steady state", "ratio, first steps", "ratio by the criterion's time"]
    return _table(head, rows)


def calibration(records: dict[str, Record]) -> str:
    """Milliseconds of the criterion on given features."""
    rows = []
    for run, case in _cases(records["calibration"]):
        columns = [case["plain"], case["ordinary"], case["renewing"], _average(case), _extra(case)]
        rows.append([run["threads"], case["classes"], *(_spread([1000 * one for one in each], 1) for each in columns)])
    return _table(["threads", "C", "plain", "ordinary", "renewing", "average", "average minus plain"], rows)


def dense(records: dict[str, Record]) -> str:
    """The dense reference, measured or extrapolated, over our own time with as many threads."""
    [run] = records["dense"]["runs"]
    theirs = {case["classes"]: case for case in run["cases"]}
    ours = {case["classes"]: case for one, case in _cases(records["calibration"]) if one["threads"] == run["threads"]}
    rows = []
    for classes in sorted({*theirs, *ours}):
        measured = median(theirs[classes]["whole"]) if classes in theirs else None
        smaller = max((each for each in theirs if each < classes), default=None)
        extrapolated = None if smaller is None else _extrapolated(theirs[smaller], classes)
        cost = measured if measured is not None else extrapolated
        ratios = ["", ""]
        if classes in ours and cost is not None:
            ratios = [f"{cost / median(each):,.0f}" for each in (_average(ours[classes]), ours[classes]["renewing"])]
        rows.append([classes, _duration(measured), _duration(extrapolated), *ratios])
    head = ["C", "measured", "extrapolated", "ratio to the average step", "ratio to the renewing step"]
    return _table(head, rows)


def memory(records: dict[str, Record]) -> str:
    """Megabytes at the peak."""
    rows = []
    for run, case in _cases(records["memory"]):
        columns = (case["plain"], case["calibrated"], case["calibrated"] - case["plain"])
        rows.append([run["threads"], case["classes"], *(f"{each:.0f}" for each in columns)])
    return _table(["threads", "C", "plain", "calibrated", "extra"], rows)


def growth(records: dict[str, Record]) -> str:
    """Exponents of every sweep."""
    rows = []
    for run, case in _cases(records["growth"]):
        sizes, points = case["sizes"], case["points"]
        sweep = f"{case['sweep']}: {', '.join(map(str, sizes))}"
        costs = " / ".join(f"{1000 * median(_extra(point)):.1f}" for point in points)
        exponents = [_exponent(sizes, [cost(point) for point in points]) for cost in (_ordinary, _renewal, _extra)]
        last = _exponent(sizes[-2:], [_extra(point) for point in points[-2:]])
        rows.append([run["threads"], sweep, costs, *exponents, last])
    head = ["threads", "sweep", "average step, ms", "p, ordinary", "p, renewal alone", "p, average", "p at the end"]
    return _table(head, rows)


def loop(records: dict[str, Record]) -> str:
    """Ratios of an epoch of the training loop to one of a bare loop."""
    rows = []
    for run, case in _cases(records["loop"]):
        bare = median(turn["bare"]["wall"] for turn in case["epochs"]) / case["steps"]
        ratios = [
            _spread([turn["fit"][clock] / turn["bare"][clock] for turn in case["epochs"]]) for clock in ("wall", "cpu")
        ]
        rows.append([run["threads"], case["model"], case["method"], f"{1000 * bare:.2f} ms", *ratios])
    return _table(["threads", "network", "method", "bare step", "ratio", "ratio of processor time"], rows)


def loading(records: dict[str, Record]) -> str:
    """Ratios of an epoch over files to one over ready batches, and of loading alone to training."""
    rows = []
    for run, case in _cases(records["loading"]):
        ready, batches = case["epochs"]["ready"], case["batches"]
        times = [f"{1000 * median(each) / batches:.0f} ms" for each in (ready, case["loading"])]
        others = [each for name, each in case["epochs"].items() if name != "ready"]
        ratios = [_spread([one / other for one, other in zip(each, ready, strict=True)]) for each in others]
        rows.append([run["threads"], case["samples"], *times, *ratios])
    head = ["threads", "B", "step", "loading a batch", "ratio, no worker", "ratio, one worker"]
    return _table(head, rows)


def startup(records: dict[str, Record]) -> str:
    """Seconds from the start of a process to its end."""
    rows = [[f"`{case['command']}`", _spread(case["seconds"], 2)] for _, case in _cases(records["startup"])]
    return _table(["command", "seconds"], rows)


TABLES: dict[str, Callable[[dict[str, Record]], str]] = {
    "whole_step": whole_step,
    "calibration": calibration,
    "dense": dense,
    "memory": memory,
    "growth": growth,
    "loop": loop,
    "loading": loading,
    "startup": startup,
}


def _cases(record: Record) -> Iterable[tuple[Record, Record]]:
    return [(run, case) for run in record["runs"] for case in run["cases"]]


def _mean(ordinary: float, renewing: float) -> float:
    """Over a refresh cycle: all steps but one are ordinary."""
    return ((REFRESH - 1) * ordinary + renewing) / REFRESH


def _cycle(cycle: Record, what: str) -> float:
    return _mean(cycle["ordinary"][what], cycle["renewing"][what])


def _longer(cycle: Record) -> float:
    return _cycle(cycle, "calibrated_criterion") - _cycle(cycle, "plain_criterion")


def _average(case: Record) -> list[float]:
    return list(map(_mean, case["ordinary"], case["renewing"]))


def _extra(case: Record) -> list[float]:
    return _minus(_average(case), case["plain"])


def _ordinary(case: Record) -> list[float]:
    return _minus(case["ordinary"], case["plain"])


def _renewal(case: Record) -> list[float]:
    return _minus(case["renewing"], case["ordinary"])


def _minus(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [one - other for one, other in zip(first, second, strict=True)]


def _extrapolated(case: Record, classes: int) -> float:
    """Seconds at ``classes``: two stages for each unimodal and the joint head; P grows with C."""
    factor = classes / case["classes"]
    own, joint = (median(head["posterior"]) * factor**3 + median(head["draws"]) * factor**2 for head in case["heads"])
    return float(case["modalities"] * own + joint)


def _exponent(sizes: Sequence[int], costs: Sequence[Sequence[float]]) -> str:
    """Of each repetition one; a dash where some cost was lost in the noise."""
    if min(map(min, costs)) <= 0:
        return "-"
    return _spread([slope(sizes, repetition) for repetition in zip(*costs, strict=True)], 2)


def _spread(values: Sequence[float], digits: int = 3) -> str:
    one = interval(values)
    return f"{one.median:.{digits}f} [{one.low:.{digits}f}, {one.high:.{digits}f}]"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 600:
        return f"{seconds:.1f} s"
    return f"{seconds / 3600:.1f} h" if seconds > 3600 else f"{seconds / 60:.0f} min"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
