"""CalibratedLoss: a criterion whose backward sends calibrated gradients into the encoders."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from evigrad.calibration.diagnostics import Diagnostics
from evigrad.calibration.engine import Calibration
from evigrad.calibration.heads import joint_module, linear_heads, outputs_of
from evigrad.calibration.inputs import Inputs, check_values, read
from evigrad.calibration.joint import JointPass
from evigrad.calibration.readings import Readings


class CalibratedOutput(NamedTuple):
    """What `CalibratedLoss` returns; a tuple with the loss first, which is what wrappers and trainers know how to read.

    The logits carry gradients to the heads only: to add a term of your own that should also train the encoders, compute
    it from the features. Rows of ``unimodal_logits`` whose sample lacks the modality mean nothing.
    """

    loss: Tensor
    joint_logits: Tensor  # [B, C]
    unimodal_logits: dict[str, Tensor]  # name -> [B, C]
    diagnostics: Diagnostics


class CalibratedLoss(nn.Module):
    r"""Joint loss plus unimodal losses, with evidence-weighted gradients for the encoders (BOGC-MML).

    The value is the ordinary :math:`L = L_{fusion} + \varphi \sum_i L_{uni}^i`, a mean over the samples (a sample adds
    nothing to the loss of a modality that it lacks). The heads get its ordinary gradients. Each encoder gets, per
    sample and feature, its unimodal and its joint gradient weighted by how certain each is of that dimension:
    a Laplace posterior over each head gives the gradient's mean and variance, the precision becomes evidence, a reduced
    Dempster rule combines the two opinions.

    Args:
        heads: a linear head for each named modality; their order is that of the concatenation.
        joint_head: a linear head over the concatenated features.
        joint: instead of ``joint_head``, any module from ``{name: features}`` to logits that ends in an ``nn.Linear``;
            if its ``forward`` takes ``present`` it is told which samples have which modality.
        joint_output: name of that last layer inside ``joint``, if running ``joint`` on a trial batch can't find it.
        loss: ``cross_entropy`` (targets: class indices or probabilities), ``binary`` (multi-label) or ``square``.
        unimodal_weight: φ, the weight of the unimodal losses. 1 is the sum that the paper trains with.
        evidence_power: s in e = λ^s. 0.5 is the paper's choice; 0 weighs all alike.
        scale: γ, by which the rescaled gradient is multiplied. 1.5 is the paper's choice.
        posterior: ``kronecker`` (scales to any number of classes), ``diagonal``, ``full`` (small heads only), or
            ``lowrank`` (exact, batch curvature only).
        curvature: ``running`` (the posterior given the data, by an exponential average) or ``batch`` (as printed).
        centre: ``weights`` (the current ones) or ``newton`` (one Newton step away, as printed).
        moments: ``linearized`` (deterministic), ``monte_carlo`` (as printed) or ``exact`` (square loss only).
        fusion: the joint gradient is that of the joint ``head``, or the ``average`` of the unimodal ones (as printed).
        reference: ``none`` (as printed) or ``power``: evidence relative to the mean squared gradient, free of scale.
        weights: ``printed``, b(b^i μ^i + b^f μ^f), or ``source``, normalised over the two sources.
        rescale: give the update the length of the plain gradient times γ over the ``batch``, for each ``sample``, or
            ``none``.
        dataset_size: N, the number of training samples; the running curvature is multiplied up to it. Without it the
            posterior is that of the samples which the average remembers.
        generator: where ``monte_carlo`` and the probes of a non-linear fusion draw from. In a distributed run seed it
            alike on every process.
        prior_precision: τ of the Gaussian prior. 1 is a unit normal prior on every weight.
        variance_floor: least variance of a dimension, relative to the sample's mean squared gradient.
        decay: of the running average. 0.99 remembers about 100 batches.
        refresh: the running posterior is renewed at each of the first ``refresh`` steps and every ``refresh`` steps
            from then on. 10 hides the cost of the eigen-decompositions.
        rank: above this many features the running second moments are kept as a sketch of this rank.
        draws: number of Monte Carlo draws.
        probes: number of random deviations pulled back through a ``joint`` that isn't a concatenation; the relative
            standard error of each variance is at most sqrt(2 / probes).
        validate: look for NaN features and labels out of range at every step (one small read from the device; skipped
            inside ``torch.compile``).
        synchronize: in a distributed run, sum the statistics over all processes, so that the batch is the global one.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from evigrad import CalibratedLoss
        >>> encoders = {"audio": nn.Linear(20, 8), "video": nn.Linear(30, 8)}
        >>> criterion = CalibratedLoss(
        ...     heads={"audio": nn.Linear(8, 3), "video": nn.Linear(8, 3)}, joint_head=nn.Linear(16, 3)
        ... )
        >>> inputs = {"audio": torch.randn(4, 20), "video": torch.randn(4, 30)}
        >>> features = {name: encoder(inputs[name]) for name, encoder in encoders.items()}
        >>> out = criterion(features, torch.tensor([0, 2, 1, 0]))
        >>> out.loss.backward()
        >>> encoders["audio"].weight.grad.shape, out.joint_logits.shape
        (torch.Size([8, 20]), torch.Size([4, 3]))
    """

    def __init__(
        self,
        heads: Mapping[str, nn.Module] | nn.ModuleDict,
        joint_head: nn.Module | None = None,
        *,
        joint: nn.Module | None = None,
        joint_output: str | None = None,
        loss: str = "cross_entropy",
        unimodal_weight: float = 1.0,
        evidence_power: float = 0.5,
        scale: float = 1.5,
        posterior: str = "kronecker",
        curvature: str = "running",
        centre: str = "weights",
        moments: str = "linearized",
        fusion: str = "head",
        reference: str = "none",
        weights: str = "printed",
        rescale: str = "batch",
        dataset_size: int | None = None,
        generator: torch.Generator | None = None,
        prior_precision: float = 1.0,
        variance_floor: float = 1e-6,
        decay: float = 0.99,
        refresh: int = 10,
        rank: int = 512,
        draws: int = 128,
        probes: int = 16,
        validate: bool = True,
        synchronize: bool = True,
    ) -> None:
        super().__init__()
        readings = Readings(
            loss, unimodal_weight, evidence_power, scale, posterior, curvature, centre, moments, fusion, reference,
            weights, rescale, dataset_size, prior_precision, variance_floor, decay, refresh, rank, draws, probes,
            synchronize,
        )  # fmt: skip
        linear = linear_heads(heads)
        self.widths = {name: head.in_features for name, head in linear.items()}
        self.classes = outputs_of(linear)
        if fusion == "average" and len(set(self.widths.values())) > 1:
            raise ValueError(
                f"fusion='average' averages gradients of different modalities and needs equal widths, got "
                f"{self.widths}. Use fusion='head', or give all encoders the same number of features."
            )
        self.heads = nn.ModuleDict(linear)
        self.joint = joint_module(joint_head, joint, joint_output, self.widths, self.classes)
        self.calibration = Calibration(linear, self.joint.output, readings)
        self.generator = _generator(generator)
        self.validate = validate

    def forward(
        self,
        features: Mapping[str, Tensor],
        target: Tensor,
        present: Mapping[str, Tensor] | None = None,
    ) -> CalibratedOutput:
        """The loss at ``features`` (name -> [B, K], or [B, ..., K] with a target for every position).

        ``present`` (name -> bool [B]) says which samples have a modality; without it all do. What stands in the
        features of an absent one is ignored, and no gradient flows into it.
        """
        readings = self.calibration.readings
        inputs = read(features, target, present, self.widths, readings.loss, self.classes)
        if self.validate and not torch.compiler.is_compiling():
            check_values(inputs, readings.loss, self.classes)
        track = torch.is_grad_enabled()
        wanted = [name for name in features if track and features[name].requires_grad]
        detached = {name: value.detach() for name, value in inputs.features.items()}
        unimodal = {name: head(detached[name]) for name, head in self.heads.items()}
        seen = self.joint(detached, inputs.present, bool(wanted))
        loss = self._value(inputs, unimodal, seen.logits)
        diagnostics = Diagnostics()
        if track and (wanted or self.training):
            diagnostics = self._calibrate(wanted, inputs, seen)
        if wanted:
            # The loss is a mean over all positions, the traces hold gradients of each position's own loss.
            scale = 1 / inputs.shape.numel()
            pairs = [(features[name], diagnostics.traces[name].calibrated * scale) for name in wanted]
            loss = _Inject.apply(loss, *[value for pair in pairs for value in pair])  # type: ignore[no-untyped-call]
        return CalibratedOutput(loss, *_unflatten(inputs.shape, seen.logits, unimodal), diagnostics)

    def _value(self, inputs: Inputs, unimodal: Mapping[str, Tensor], joint: Tensor) -> Tensor:
        loss, weight = self.calibration.loss, self.calibration.readings.unimodal_weight
        total = loss.value(_wide(joint), inputs.target)
        for name, logits in unimodal.items():
            own = loss.value(_wide(logits), inputs.target)
            total = total + weight * own.masked_fill(~inputs.present[name], 0)
        return total.mean()

    @torch.no_grad()
    def _calibrate(self, wanted: list[str], inputs: Inputs, seen: JointPass) -> Diagnostics:
        heads: dict[str, Any] = {name: head for name, head in self.heads.items()}  # noqa: C416 (torch.compile)
        with torch.autocast(inputs.target.device.type, enabled=False):
            step = self.calibration.observe(inputs, heads, self.joint, seen, learn=self.training)
            asked = wanted or self.calibration.readings.shared
            traces = self.calibration.traces(wanted, step, self.generator) if asked else {}
        return Diagnostics(traces, inputs.shape)


class _Inject(torch.autograd.Function):
    """The identity on the loss; backward sends given gradients, times the loss's own, into the features."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor, *pairs: Tensor) -> Tensor:
        features, gradients = pairs[::2], pairs[1::2]
        ctx.save_for_backward(*gradients)
        ctx.like = [(value.shape, value.dtype) for value in features]
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():
            raise RuntimeError(
                "CalibratedLoss can't be differentiated twice: `create_graph=True` was passed to backward or grad, but "
                "a calibrated gradient is no function that has a derivative. Call backward without create_graph; for a "
                "gradient penalty, compute it from an ordinary loss on the features."
            )
        result: list[Tensor | None] = [grad]
        for gradient, (shape, dtype) in zip(ctx.saved_tensors, ctx.like, strict=True):
            result += [(grad * gradient).to(dtype).view(shape), None]
        return tuple(result)


def _wide(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _unflatten(shape: torch.Size, joint: Tensor, unimodal: Mapping[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    def back(logits: Tensor) -> Tensor:
        # FSDP warns of a module that returns a view, even one of the same shape.
        return logits if len(shape) == 1 else logits.reshape(*shape, logits.shape[-1])

    return back(joint), {name: back(logits) for name, logits in unimodal.items()}


def _generator(generator: torch.Generator | None) -> torch.Generator | None:
    if generator is None or isinstance(generator, torch.Generator):
        return generator
    raise ValueError(
        f"`generator` is {generator!r}, but it must be a torch.Generator on the device of the heads. "
        "Make one from a seed: torch.Generator().manual_seed(0)."
    )
