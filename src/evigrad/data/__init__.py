"""Data sets, batches, and what can go wrong with a modality: noise, conflict, absence.

>>> splits = load("digits", split="tmc")
>>> batch = next(iter(batches(splits.train, 32, shuffle=True, generator=stream(0))))
>>> batch.inputs["pixels"].shape, batch.present["pixels"].all().item()
(torch.Size([32, 240]), True)
"""

from .batch import Altered, Batch, Sample, collate
from .cells import Decoding
from .conflict import ConflictDataset, ecml_conflict
from .corrupted import CorruptedDataset, corrupt, corrupt_batch
from .corruption import BlankWords, Damage, FeatureNoise, PixelNoise, SaltAndPepper, TimeMask
from .dataset import Info, MultimodalDataset, Splits
from .errors import DataError, DataReportError
from .loading import batches, seed_worker, whole
from .memory import Views, split_views
from .missing import MissingDataset, draw, drop, keep, remove, remove_at_random, subsets
from .noise import NOISE, apply_noise
from .prepare import prepare, verify
from .registry import DATASETS, info, load, names, options
from .scaling import SCALINGS, Affine
from .seeding import stream
from .splitting import grouped, stratified
from .synthetic import Planted, SyntheticViews, synthetic
from .text import VOCABULARY, encode
from .wrapped import presence

__all__ = [
    "DATASETS",
    "NOISE",
    "SCALINGS",
    "VOCABULARY",
    "Affine",
    "Altered",
    "Batch",
    "BlankWords",
    "ConflictDataset",
    "CorruptedDataset",
    "Damage",
    "DataError",
    "DataReportError",
    "Decoding",
    "FeatureNoise",
    "Info",
    "MissingDataset",
    "MultimodalDataset",
    "PixelNoise",
    "Planted",
    "SaltAndPepper",
    "Sample",
    "Splits",
    "SyntheticViews",
    "TimeMask",
    "Views",
    "apply_noise",
    "batches",
    "collate",
    "corrupt",
    "corrupt_batch",
    "draw",
    "drop",
    "ecml_conflict",
    "encode",
    "grouped",
    "info",
    "keep",
    "load",
    "names",
    "options",
    "prepare",
    "presence",
    "remove",
    "remove_at_random",
    "seed_worker",
    "split_views",
    "stratified",
    "stream",
    "subsets",
    "synthetic",
    "verify",
    "whole",
]
