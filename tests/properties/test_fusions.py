"""Every fusion goes through every property."""

import pytest
import torch
from torch import nn

from evigrad.networks import FUSIONS, Fusion
from tests.properties import fusions as properties


@pytest.fixture(params=FUSIONS)
def fusion(request) -> Fusion:
    torch.manual_seed(0)
    return FUSIONS[request.param](properties.WIDTHS, 4).double().eval()


@pytest.mark.parametrize("name", [name for name in dir(properties) if name.startswith("assert_")])
def test_property(fusion, name):
    getattr(properties, name)(fusion)


def test_lacking_features_are_an_error(fusion):
    with pytest.raises(ValueError, match=r"`features` lacks \['words'\]; give every modality of the fusion"):
        fusion({"sound": torch.zeros(2, 3), "image": torch.zeros(2, 5)})


@pytest.mark.parametrize("name", FUSIONS)
def test_no_modality_is_an_error(name):
    with pytest.raises(ValueError, match="`widths` is empty"):
        FUSIONS[name]({}, 4)


@pytest.mark.parametrize("name", FUSIONS)
@pytest.mark.parametrize("modality", ["training", "items", "get", "a.b"])
def test_impossible_names_are_an_error(name, modality):
    """By name and not by PyTorch's KeyError, and the same names for all: a network may change its fusion."""
    with pytest.raises(ValueError, match=rf"'{modality}' cannot be a modality's name.*rename it, to '.*_input' say"):
        FUSIONS[name]({modality: 3}, 4)


def test_a_fusion_must_define_what_its_last_layer_reads():
    class Idle(Fusion):
        def __init__(self) -> None:
            super().__init__({"a": 3}, 4)
            self.linear = nn.Linear(3, 4)

    with pytest.raises(NotImplementedError, match=r"Idle does not define `combine`; return \[B, K\] from it"):
        Idle()({"a": torch.zeros(2, 3)})
