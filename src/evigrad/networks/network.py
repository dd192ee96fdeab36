"""Encoders, unimodal heads and a fusion, joined into one network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from evigrad.calibration.errors import choose
from evigrad.networks.fusion import NoFusion
from evigrad.networks.names import check_names
from evigrad.networks.output import Output
from evigrad.networks.presence import encode_present, zero_touching

__all__ = ["MultimodalNetwork"]


class MultimodalNetwork(nn.Module):
    r"""Late fusion of any number of named modalities.

    Modality i is encoded to :math:`\psi^i \in \mathbb{R}^{B \times K_i}`; its own head gives unimodal logits,
    and the fusion of all features gives the joint logits. A modality that is absent from a sample contributes
    nothing: not to the features, not to a BatchNorm's statistics, not to a gradient, whatever its input row
    holds (NaN included).

    Args:
        encoders: name -> module from ``[B, ...]`` to ``[B, width]`` with an integer attribute ``width``.
        fusion: module from ``({name: [B, K_i]}, present)`` to logits ``[B, C]`` that ends in a linear layer
            ``linear``.
        heads: name -> ``nn.Linear(K_i, C)``; None builds one for every encoder.

    Example:
        >>> from evigrad.networks import MLP, Concatenation
        >>> encoders = {"sound": MLP((20,), width=8), "image": MLP((30,), width=16)}
        >>> network = MultimodalNetwork(encoders, Concatenation({"sound": 8, "image": 16}, classes=3))
        >>> output = network({"sound": torch.randn(4, 20), "image": torch.randn(4, 30)})
        >>> output.joint_logits.shape, output.unimodal_logits["sound"].shape
        (torch.Size([4, 3]), torch.Size([4, 3]))
    """

    def __init__(
        self,
        encoders: Mapping[str, nn.Module],
        fusion: nn.Module,
        heads: Mapping[str, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        widths = _widths(encoders)
        self.classes = _classes(fusion)
        _check_fusion(fusion, widths)
        if heads is None:
            heads = {name: nn.Linear(width, self.classes) for name, width in widths.items()}
        _check_heads(heads, widths, self.classes)
        self.encoders = nn.ModuleDict(encoders)
        self.heads = nn.ModuleDict(heads)
        self.fusion = fusion

    @property
    def modalities(self) -> tuple[str, ...]:
        """Names of the modalities, in the order of the fusion's features."""
        return tuple(self.encoders)

    def encode(self, inputs: Mapping[str, Tensor], present: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """Features ``[B, K_i]`` of every modality; rows of absent samples are zero.

        Args:
            inputs: name -> ``[B, ...]``; a name that is left out counts as absent from every sample.
            present: name -> bool ``[B]``; None, or a name left out, means present wherever there is an input.
        """
        batch, device = _batch(self.encoders, inputs)
        features = {}
        for name, encoder in self.encoders.items():
            mask = None if present is None else present.get(name)
            _check_rows(name, batch, inputs.get(name), mask)
            if name in inputs:
                features[name] = encode_present(encoder, inputs[name], mask)
            elif mask is not None and bool(mask.any()):
                raise ValueError(
                    f"`present` says that {int(mask.sum())} samples have modality {name!r}, but `inputs` "
                    f"({list(inputs)}) does not hold it; add the input or mark the modality absent."
                )
            else:
                features[name] = zero_touching(encoder, batch, device)
        return features

    def forward(self, inputs: Mapping[str, Tensor], present: Mapping[str, Tensor] | None = None) -> Output:
        """Encode, then apply the heads and the fusion; see :meth:`encode` for the arguments."""
        present = self._complete(inputs, present)
        features = self.encode(inputs, present)
        unimodal = {name: head(features[name]) for name, head in self.heads.items()}
        return Output(features, unimodal, self.fusion(features, present))

    def drop_heads(self) -> None:
        """Remove the unimodal heads, for a method that trains none: DDP fails on unused parameters."""
        self.heads = nn.ModuleDict()

    def drop_fusion(self) -> None:
        """Remove the joint head, for a method that trains none; the joint logits become all zero."""
        self.fusion = NoFusion(self.classes)

    def keep(self, names: Iterable[str]) -> None:
        """Remove encoders and heads that are not in ``names``, and the fusion if there are any."""
        names = [choose("names", name, self.encoders) for name in names]
        if not names:
            raise ValueError(f"`names` is empty; keep at least one of {list(self.encoders)}.")
        if set(names) == set(self.encoders):
            return
        self.encoders = nn.ModuleDict({name: self.encoders[name] for name in names})
        self.heads = nn.ModuleDict({name: self.heads[name] for name in names if name in self.heads})
        self.drop_fusion()

    def _complete(
        self, inputs: Mapping[str, Tensor], present: Mapping[str, Tensor] | None
    ) -> Mapping[str, Tensor] | None:
        absent = [name for name in self.encoders if name not in inputs]
        if not absent:
            return present
        batch, device = _batch(self.encoders, inputs)
        nowhere = torch.zeros(batch, dtype=torch.bool, device=device)
        return {**dict.fromkeys(absent, nowhere), **(present or {})}


def _widths(encoders: Mapping[str, nn.Module]) -> dict[str, int]:
    if not encoders:
        raise ValueError("`encoders` is empty; give at least one {name: module}.")
    check_names(encoders)
    widths: dict[str, int] = {}
    for name, encoder in encoders.items():
        width = getattr(encoder, "width", None)
        if not isinstance(width, int):
            raise ValueError(
                f"the encoder of modality {name!r} ({type(encoder).__name__}) has width {width!r}; "
                "set its attribute `width` to the number of features it returns."
            )
        widths[name] = width
    return widths


def _classes(fusion: nn.Module) -> int:
    linear = getattr(fusion, "linear", fusion)
    classes = getattr(linear, "out_features", getattr(fusion, "classes", None))
    if not isinstance(classes, int):
        raise ValueError(
            f"`fusion` ({type(fusion).__name__}) has no linear layer `linear` that says the number of "
            "classes; end it in one: self.linear = nn.Linear(width, classes)."
        )
    return classes


def _check_fusion(fusion: nn.Module, widths: Mapping[str, int]) -> None:
    # a fusion of the user's own need not say what it reads
    reads = getattr(fusion, "widths", widths)
    if reads != widths:
        raise ValueError(
            f"`fusion` reads {dict(reads)} features, but the `encoders` return {widths}; "
            f"build it for them: {type(fusion).__name__}({widths}, classes)."
        )


def _check_heads(heads: Mapping[str, nn.Module], widths: Mapping[str, int], classes: int) -> None:
    extra = sorted(set(heads) - set(widths))
    if extra:
        raise ValueError(f"`heads` has {extra}, which `encoders` ({list(widths)}) does not; use the same names.")
    for name, head in heads.items():
        if isinstance(head, nn.Linear) and (head.in_features, head.out_features) != (widths[name], classes):
            raise ValueError(
                f"the head of modality {name!r} is Linear({head.in_features}, {head.out_features}), but its encoder "
                f"returns {widths[name]} features and `fusion` has {classes} classes; use nn.Linear({widths[name]}, "
                f"{classes}), or leave `heads` out."
            )


def _batch(encoders: nn.ModuleDict, inputs: Mapping[str, Tensor]) -> tuple[int, torch.device]:
    known = [inputs[name] for name in encoders if name in inputs]
    if not known:
        raise ValueError(f"`inputs` holds {list(inputs)}, none of the modalities {list(encoders)}; give at least one.")
    return known[0].shape[0], known[0].device


def _check_rows(name: str, batch: int, values: Tensor | None, mask: Tensor | None) -> None:
    if values is not None and values.shape[0] != batch:
        raise ValueError(
            f"`inputs[{name!r}]` has {values.shape[0]} samples and the first modality has {batch}; give every modality "
            "the same samples, and mark those that lack it in `present`."
        )
    if mask is not None and (mask.dtype != torch.bool or mask.shape != (batch,)):
        raise ValueError(
            f"`present[{name!r}]` is {mask.dtype} of shape {tuple(mask.shape)}; give a bool tensor of shape "
            f"({batch},), True where the sample has the modality."
        )
