"""What every posterior structure must do with a covariance known as a dense [C·D, C·D] matrix, all in float64."""

import torch
from torch import Tensor

from evigrad.calibration.structures import Gaussian
from evigrad.calibration.structures.forms import DiagonalForms


def assert_draws_have(posterior: Gaussian, covariance: Tensor, outputs: int) -> None:
    """`draw` is linear in its noise, and the outer product of its matrix with itself is the covariance."""
    root = draw_matrix(posterior, len(covariance), outputs)
    torch.testing.assert_close(root @ root.T, covariance, rtol=1e-9, atol=1e-11)
    noise = torch.randn(5, outputs, len(covariance) // outputs, dtype=covariance.dtype)
    torch.testing.assert_close(posterior.draw(noise).flatten(1), noise.flatten(1) @ root.T)


def draw_matrix(posterior: Gaussian, size: int, outputs: int) -> Tensor:
    basis = torch.eye(size, dtype=torch.float64).view(size, outputs, size // outputs)
    return posterior.draw(basis).flatten(1).T


def assert_solves(posterior: Gaussian, covariance: Tensor, outputs: int) -> None:
    """`solve` multiplies with the covariance."""
    for row in torch.eye(len(covariance), dtype=torch.float64):
        solved = posterior.solve(row.view(outputs, -1))
        torch.testing.assert_close(solved.flatten(), covariance @ row, rtol=1e-9, atol=1e-11)


def assert_forms_match(posterior: Gaussian, covariance: Tensor, outputs: int, inputs: Tensor, columns: int) -> None:
    """`forms` holds Cov(W_cd, W_ed), Cov(W_cd, f_e) and Cov(f_c, f_e), and contracts them rightly."""
    weights, cross, logits = naive_forms(covariance, outputs, inputs, columns)
    forms = posterior.forms(inputs, posterior.weights(columns))
    ours = dense(forms) if isinstance(forms, DiagonalForms) else (forms.weights, forms.cross, forms.logits)
    for got, wanted in zip(ours, (weights, cross, logits), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-8, atol=1e-11)

    samples = len(inputs)
    draw = torch.Generator().manual_seed(0)
    residual = torch.randn(samples, outputs, generator=draw, dtype=torch.float64)
    slope = torch.randn(samples, outputs, columns, generator=draw, dtype=torch.float64)
    linear, mean, product = (torch.zeros(samples, columns, dtype=torch.float64) for _ in range(3))
    for b in range(samples):
        for d in range(columns):
            for c in range(outputs):
                mean[b, d] += cross[b, c, c, d]
                for e in range(outputs):
                    linear[b, d] += residual[b, c] * residual[b, e] * weights[c, e, d]
                    linear[b, d] += 2 * residual[b, c] * slope[b, e, d] * cross[b, c, e, d]
                    linear[b, d] += slope[b, c, d] * slope[b, e, d] * logits[b, c, e]
                    product[b, d] += weights[c, e, d] * logits[b, c, e] + cross[b, c, e, d] * cross[b, e, c, d]
    torch.testing.assert_close(forms.linear(residual, slope), linear, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(forms.product_mean(), mean, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(forms.product_variance(), product, rtol=1e-8, atol=1e-10)


def naive_forms(covariance: Tensor, outputs: int, inputs: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """The three covariances element by element."""
    width = len(covariance) // outputs
    weights = torch.zeros(outputs, outputs, columns, dtype=torch.float64)
    cross = torch.zeros(len(inputs), outputs, outputs, columns, dtype=torch.float64)
    logits = torch.zeros(len(inputs), outputs, outputs, dtype=torch.float64)
    for c in range(outputs):
        for e in range(outputs):
            block = covariance[c * width : (c + 1) * width, e * width : (e + 1) * width]
            for d in range(columns):
                weights[c, e, d] = block[d, d]
                for b in range(len(inputs)):
                    cross[b, c, e, d] = sum(block[d, k] * inputs[b, k] for k in range(width))
            for b in range(len(inputs)):
                logits[b, c, e] = inputs[b] @ block @ inputs[b]
    return weights, cross, logits


def dense(forms: DiagonalForms) -> tuple[Tensor, Tensor, Tensor]:
    """What diagonals in a basis of the outputs stand for."""
    basis = torch.eye(len(forms.weights), dtype=forms.weights.dtype) if forms.basis is None else forms.basis
    return (
        torch.einsum("cr,rk,er->cek", basis, forms.weights, basis),
        torch.einsum("cr,brk,er->bcek", basis, forms.cross, basis),
        torch.einsum("cr,br,er->bce", basis, forms.logits, basis),
    )
