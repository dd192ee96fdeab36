"""Writes ``frozen.json``: what the naive update gives on one tiny input for each reading; run it as a module.

A change there is a change of the method. ``python -m tests.oracles.freeze`` from the project's folder writes it anew.
"""

import json
from pathlib import Path

import torch
from torch import Tensor

from tests.oracles.update import JOINT, Batch, Naive

FILE = Path(__file__).with_name("frozen.json")
DIGITS = 10

PAPER = {  # everything as printed, with all that the paper leaves open at its plainest
    "posterior": "full",
    "curvature": "batch",
    "centre": "newton",
    "moments": "monte_carlo",
    "fusion": "average",
    "rescale": "none",
    "scale": 1.5,
    "draws": 8,
}

READINGS: dict[str, dict[str, object]] = {
    "defaults": {},
    "full posterior": {"posterior": "full"},
    "diagonal posterior": {"posterior": "diagonal"},
    "low-rank posterior": {"posterior": "lowrank", "curvature": "batch"},
    "batch curvature": {"curvature": "batch"},
    "a data set of 100": {"dataset_size": 100},
    "Newton centre": {"centre": "newton"},
    "Monte Carlo": {"moments": "monte_carlo", "posterior": "full", "draws": 8},
    "square loss": {"loss": "square"},
    "square loss, exact": {"loss": "square", "moments": "exact"},
    "binary loss": {"loss": "binary"},
    "average fusion": {"fusion": "average"},
    "reference power": {"reference": "power"},
    "source weights": {"weights": "source"},
    "rescaled by sample": {"rescale": "sample"},
    "not rescaled": {"rescale": "none"},
    "phi of a half": {"unimodal_weight": 0.5},
    "power of two": {"evidence_power": 2.0},
    "strong prior": {"prior_precision": 10.0},
    "high floor": {"variance_floor": 1.0},
    "as printed": PAPER,
}


def tensor(rows: object) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def tiny(loss: str = "cross_entropy") -> Batch:
    """Three samples, two classes, two modalities of two features; the third sample has no video."""
    target = torch.tensor([0, 1, 1])
    return Batch(
        heads={
            "audio": (tensor([[0.6, -0.4], [-0.2, 0.9]]), tensor([0.1, -0.3])),
            "video": (tensor([[-0.5, 0.7], [0.8, 0.3]]), tensor([0.0, 0.2])),
        },
        joint=(tensor([[0.4, -0.6, 0.5, 0.2], [-0.3, 0.7, -0.1, 0.6]]), tensor([-0.2, 0.1])),
        features={
            "audio": tensor([[1.0, -0.5], [0.3, 0.8], [-1.2, 0.4]]),
            "video": tensor([[0.2, 1.1], [-0.7, 0.6], [0.0, 0.0]]),
        },
        target=target if loss == "cross_entropy" else torch.nn.functional.one_hot(target, 2).double(),
        present={"audio": [True, True, True], "video": [True, True, False]},
    )


def frozen(readings: dict[str, object]) -> dict[str, list[list[float]]]:
    batch, method = tiny(str(readings.get("loss", "cross_entropy"))), Naive(**readings)
    method.observe(batch)
    sources = method.sources(batch, cholesky_roots(method, batch), torch.Generator().manual_seed(0))
    rows = method.gradients(batch, sources)
    return {name: [[round(number, DIGITS) for number in row] for row in value.tolist()] for name, value in rows.items()}


def cholesky_roots(method: Naive, batch: Batch) -> dict[str, Tensor]:
    """L⁻ᵀ of H = L Lᵀ: how draws are made of white noise where there are any."""
    if method.r["moments"] != "monte_carlo":
        return {}
    names = [*batch.heads, JOINT]
    return {name: torch.linalg.inv(torch.linalg.cholesky(method.precision(name, batch))).T for name in names}


if __name__ == "__main__":
    table = {name: frozen(readings) for name, readings in READINGS.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in table.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
