import pytest
import torch

from evigrad.calibration.structures import Diagonal, state
from evigrad.calibration.structures.base import cholesky, eigen, moment_eigen, symmetric


def test_cholesky_factor_of_a_positive_definite_matrix():
    root = torch.randn(4, 4, dtype=torch.float64)
    matrix = root @ root.T + torch.eye(4)
    factor = cholesky(matrix, "matrix")
    torch.testing.assert_close(factor @ factor.T, matrix)
    assert (factor.triu(1) == 0).all()


def test_cholesky_needs_jitter_for_a_singular_matrix_only():
    """A rank-one matrix of float32 gets the least jitter that works, relative to its diagonal."""
    vector = 1e4 * torch.randn(6)
    matrix = torch.outer(vector, vector)
    factor = cholesky(matrix, "matrix")
    assert factor.dtype == torch.float64
    error = (factor @ factor.T - matrix.double()).abs().max()
    assert error <= 1e-6 * matrix.diagonal().mean().double() * (1 + 1e-6)


def test_cholesky_of_an_indefinite_matrix_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"The precision is not positive definite even with jitter 1e-6.*"):
        cholesky(torch.diag(torch.tensor([1.0, -1.0])), "precision")
    with pytest.raises(
        RuntimeError, match="Check the features for infinite or huge values, or raise `prior_precision`"
    ):
        cholesky(torch.full((2, 2), float("inf")), "precision")


def test_eigenvalues_are_never_negative():
    vector = torch.randn(5)
    values, vectors = eigen(torch.outer(vector, vector))
    assert (values >= 0).all()
    torch.testing.assert_close(values.max(), vector.double().square().sum())
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize("decompose", [eigen, moment_eigen])
def test_what_can_not_be_decomposed_says_what_to_do(decompose):
    matrix = torch.eye(3)
    matrix[1] = matrix[:, 1] = float("nan")
    with pytest.raises(
        RuntimeError,
        match=r"^A head's curvature could not be decomposed: 5 of the 9 entries of a \(3, 3\) matrix are NaN or "
        r"infinite\. Look for a diverged encoder .*, or use curvature='running', which passes such a batch over\.$",
    ):
        decompose(matrix)


def test_eigenvalues_of_moments_are_those_of_their_matrix():
    inputs = torch.randn(3, 5)
    values, vectors = moment_eigen(inputs)
    torch.testing.assert_close(vectors @ torch.diag(values) @ vectors.T, (inputs.T @ inputs).double())
    torch.testing.assert_close(vectors.T @ vectors, torch.eye(3, dtype=torch.float64))


def test_symmetric_part_is_float64():
    matrix = torch.tensor([[1.0, 2.0], [4.0, 5.0]])
    assert symmetric(matrix).dtype == torch.float64
    torch.testing.assert_close(symmetric(matrix), torch.tensor([[1.0, 3.0], [3.0, 5.0]], dtype=torch.float64))


def test_state_is_the_tensors_by_name():
    variance = torch.rand(2, 3).T
    kept = state(Diagonal(variance))
    assert list(kept) == ["variance"]
    assert kept["variance"].is_contiguous()
    torch.testing.assert_close(kept["variance"], variance)
