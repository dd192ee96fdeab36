"""``evigrad export``."""

from __future__ import annotations

from pathlib import Path

from evigrad.cli.arguments import call
from evigrad.cli.console import say, say_json
from evigrad.cli.errors import ExitCode
from evigrad.experiments import load_trained
from evigrad.training import export as write


def command(words: list[str]) -> int:
    """Run ``evigrad export`` with the arguments ``words``."""
    return call("export", export, words)


def export(run: Path, out: Path | None = None, samples: int = 8, json: bool = False) -> int:
    """Write a run as a torch.export program (model.pt2) and, where it can be expressed, as ONNX (model.onnx).

    Both take two mappings, inputs and presence, of any batch size, and give class probabilities. Inputs are scaled as
    in training; scaling.safetensors in the run folder holds the numbers. Both are run beside the model before they
    are kept, also with each modality missing; one that gives other outputs is an error.

    Args:
        run: The run folder.
        out: The folder to write to; ``export`` in the run folder if not given.
        samples: Validation samples the outputs are compared on.
        json: Print what was written as JSON, for scripts.
    """
    from evigrad.data.wrapped import fetch

    trained = load_trained(run)
    validation = trained.experiment.splits().validation
    example = fetch(validation, range(min(samples, len(validation))))
    report = write(trained.network, trained.method, example, out or run / "export")
    if json:
        say_json(report)
        return ExitCode.OK
    say(f"{report['program']}: outputs equal the model's to {report['program_difference']:.1g}.")
    if report["onnx"]:
        say(f"{report['onnx']}: outputs equal the model's to {report['onnx_difference']:.1g}.")
    else:
        say(f"No ONNX file: {report['onnx_skipped']}")
    return ExitCode.OK
