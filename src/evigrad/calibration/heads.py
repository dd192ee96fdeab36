"""The modules that a criterion is built from, checked."""

from collections.abc import Mapping

from torch import nn

from evigrad.calibration.joint import Concatenation, Fusion


def linear_heads(heads: Mapping[str, nn.Module] | nn.ModuleDict) -> dict[str, nn.Linear]:
    """The heads, which must all be linear and have names that PyTorch can use."""
    example = "{'audio': nn.Linear(512, 6), 'video': nn.Linear(512, 6)}"
    if not isinstance(heads, Mapping | nn.ModuleDict):
        raise ValueError(f"`heads` is a {type(heads).__name__}, but it must name its modalities, e.g. {example}.")
    if not heads:
        raise ValueError(f"`heads` is empty. Pass one nn.Linear for each modality, e.g. {example}.")
    linear = {}
    for name, head in heads.items():
        if not name or "." in name or hasattr(nn.ModuleDict(), name):
            raise ValueError(
                f"`heads` has a modality called {name!r}, which PyTorch can't use as a module's name. Rename it "
                "(no dots, not empty, not an attribute of nn.ModuleDict)."
            )
        if not isinstance(head, nn.Linear):
            raise ValueError(
                f"`heads['{name}']` is a {type(head).__name__}, but a posterior in closed form needs an nn.Linear. "
                "Put the layers before the last one into the encoder and pass the last nn.Linear as the head."
            )
        if isinstance(head, nn.LazyLinear):
            raise ValueError(
                f"`heads['{name}']` is lazy, but its posterior must know how many features it takes. "
                f"Build it as nn.Linear(features, {head.out_features})."
            )
        linear[name] = head
    return linear


def outputs_of(heads: Mapping[str, nn.Linear]) -> int:
    """The number of outputs that all heads share."""
    outputs = {name: head.out_features for name, head in heads.items()}
    if len(set(outputs.values())) > 1:
        raise ValueError(
            f"`heads` must agree on the number of outputs, got {outputs}. Give every head one output for each class."
        )
    return next(iter(outputs.values()))


def joint_module(
    head: nn.Module | None,
    module: nn.Module | None,
    output: str | None,
    widths: Mapping[str, int],
    classes: int,
) -> Concatenation | Fusion:
    """The joint head over the concatenation, or a joint module of any kind."""
    linear = f"nn.Linear({sum(widths.values())}, {classes})"
    if (head is None) == (module is None):
        both = "neither" if head is None else "both"
        raise ValueError(
            f"Pass exactly one of `joint_head` (an {linear} over the concatenated features) and `joint` (a module from "
            f"{{name: features}} to logits), got {both}."
        )
    if module is not None:
        if not isinstance(module, nn.Module):
            raise ValueError(
                f"`joint` is a {type(module).__name__}, but it must be an nn.Module from {{name: features}} to logits: "
                "its last nn.Linear is what gives the joint gradient its variance. Wrap the function in a module."
            )
        return Fusion(module, widths, classes, output)
    if output is not None:
        raise ValueError(
            f"`joint_output` ({output!r}) names a layer of a `joint` module, but `joint_head` was passed. Leave it out."
        )
    if not isinstance(head, nn.Linear):
        raise ValueError(
            f"`joint_head` is a {type(head).__name__}, but it must be an nn.Linear over the concatenated features. "
            "Pass any other fusion as `joint=`: a module from {name: features} to logits that ends in an nn.Linear."
        )
    if head.out_features != classes:
        raise ValueError(
            f"`joint_head` gives {head.out_features} outputs, but the heads give {classes}. Build it as {linear}."
        )
    return Concatenation(head, widths)
