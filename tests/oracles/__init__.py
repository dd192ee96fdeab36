"""Slow references, written from the method sheet and the paper alone: loops, autograd and dense matrices in float64."""
