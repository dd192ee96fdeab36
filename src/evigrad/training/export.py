"""A trained system as a program that runs without this package."""

from __future__ import annotations

import io
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from evigrad.training.files import write_atomically
from evigrad.training.predictions import evaluating

if TYPE_CHECKING:
    from evigrad.data import Batch
    from evigrad.methods import Method
    from evigrad.networks import MultimodalNetwork

Case = tuple[dict[str, Tensor], dict[str, Tensor]]
Cases = list[Case]

TOLERANCE = 1e-4
"""Largest difference in a probability between the model and its export; compilers may reorder sums."""


class ExportError(RuntimeError):
    """A model couldn't be exported, or its export gives other outputs."""


class Deployed(nn.Module):
    """Network and method as one function from inputs and presence to class probabilities ``[B, C]``."""

    def __init__(self, network: MultimodalNetwork, method: Method) -> None:
        super().__init__()
        self.network = network
        self.method = method

    def forward(self, inputs: dict[str, Tensor], present: dict[str, Tensor]) -> Tensor:
        """Class probabilities; ``present`` may be False where a modality is missing."""
        return self.method.predict(self.network(inputs, present), present)


def export(network: MultimodalNetwork, method: Method, example: Batch, folder: Path | str) -> dict[str, Any]:
    """Write ``model.pt2`` (a ``torch.export`` program) and, where it can be done, ``model.onnx`` into ``folder``.

    Both take any batch size, and both are run on ``example`` and on ``example`` with each modality missing in turn;
    outputs that differ from the model's by more than 1e-4 are an error, not a file.

    Args:
        network: The trained network, on the CPU.
        method: The method that trained it.
        example: At least two samples, of the shapes to come.
        folder: Where to write.

    Returns:
        What was written: ``program``, ``onnx`` (None where it couldn't be, with the reason in ``onnx_skipped``), and
        the largest difference seen for each.
    """
    if len(example) < 2:
        raise ValueError(f"the example has {len(example)} sample(s); give at least 2, or the batch size is fixed at 1.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    model = Deployed(network, method)
    with evaluating(model):
        return _export(model, _cases(example), folder)


def _export(model: Deployed, cases: Cases, folder: Path) -> dict[str, Any]:
    expected = [model(*case) for case in cases]
    program = _program(model, cases[0])
    difference = _compare("the exported program", expected, [program.module()(*case) for case in cases])
    # Through memory: torch.export.save warns about the temporary file's name.
    torch.export.save(program, packed := io.BytesIO())
    write_atomically(folder / "model.pt2", lambda path: _put(path, packed.getvalue()))
    report = {"program": str(folder / "model.pt2"), "program_difference": difference, "onnx": None}
    return report | _onnx(program, cases, expected, folder / "model.onnx")


def _cases(example: Batch) -> Cases:
    """The example, then with each modality missing from all samples, then a batch of another size."""
    inputs, present = dict(example.inputs), dict(example.present)
    cases = [(inputs, present)]
    if len(inputs) > 1:
        for name in inputs:
            blank = {key: torch.zeros_like(value) if key == name else value for key, value in inputs.items()}
            cases.append((blank, {**present, name: torch.zeros_like(present[name])}))
    doubled = [{key: torch.cat([value, value]) for key, value in part.items()} for part in (inputs, present)]
    return [*cases, (doubled[0], doubled[1])]


def _program(model: nn.Module, case: Case) -> torch.export.ExportedProgram:
    batch = torch.export.Dim("batch", min=1)
    shapes = tuple({name: {0: batch} for name in part} for part in case)
    try:
        return torch.export.export(model, case, dynamic_shapes=shapes)
    except Exception as error:  # torch.export raises many kinds, none of them documented
        first = str(error).strip().splitlines()[0]
        raise ExportError(
            f"torch.export can't follow this model: {first} Rewrite the part it names without control flow that "
            "depends on values."
        ) from error


def _onnx(
    program: torch.export.ExportedProgram,
    cases: Cases,
    expected: list[Tensor],
    path: Path,
) -> dict[str, Any]:
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        return {"onnx_skipped": f"{error.name} isn't installed. Run: pip install 'evigrad[onnx]'"}
    try:
        model = _convert(program)
        found = [_run_onnx(model, case) for case in cases]
    except Exception as error:  # an operator ONNX or its reference evaluator doesn't have
        return {"onnx_skipped": f"ONNX can't express this model: {str(error).strip().splitlines()[0]}"}
    difference = _compare("the ONNX model", expected, found)
    write_atomically(path, lambda temporary: _put(temporary, model.SerializeToString()))
    return {"onnx": str(path), "onnx_difference": difference}


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _convert(program: torch.export.ExportedProgram) -> Any:
    """The ONNX model, without the exporter's remarks about itself and about packages nobody asked for."""
    talk = logging.getLogger("torch.onnx")
    level = talk.level
    talk.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            converted: Any = torch.onnx.export(program, dynamo=True, verbose=False)
    finally:
        talk.setLevel(level)
    return converted.model_proto


def _run_onnx(model: Any, case: Case) -> Tensor:
    """The ONNX model's output, by ONNX's own reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    values = [value for part in case for value in part.values()]
    feed = {given.name: value.numpy() for given, value in zip(model.graph.input, values, strict=True)}
    return torch.as_tensor(ReferenceEvaluator(model).run(None, feed)[0])


def _compare(what: str, expected: list[Tensor], found: list[Tensor]) -> float:
    difference = max(float((a - b).abs().max()) for a, b in zip(expected, found, strict=True))
    if not difference <= TOLERANCE:
        raise ExportError(
            f"{what} differs from the model by {difference:.3g} in a probability (at most {TOLERANCE:g} is allowed): "
            "nothing was written. Does the network do something random or stateful in evaluation?"
        )
    return difference
