import torch

from evigrad.calibration.structures.forms import DenseForms, DiagonalForms


def test_a_basis_is_the_same_as_rotated_matrices():
    draw = torch.Generator().manual_seed(0)
    rotation = torch.linalg.qr(torch.randn(3, 3, generator=draw, dtype=torch.float64))[0]
    diagonal = DiagonalForms(
        weights=torch.rand(3, 2, generator=draw, dtype=torch.float64),
        cross=torch.randn(4, 3, 2, generator=draw, dtype=torch.float64),
        logits=torch.rand(4, 3, generator=draw, dtype=torch.float64),
        basis=rotation,
    )
    dense = DenseForms(
        weights=torch.einsum("cr,rk,er->cek", rotation, diagonal.weights, rotation),
        cross=torch.einsum("cr,brk,er->bcek", rotation, diagonal.cross, rotation),
        logits=torch.einsum("cr,br,er->bce", rotation, diagonal.logits, rotation),
    )
    residual = torch.randn(4, 3, generator=draw, dtype=torch.float64)
    slope = torch.randn(4, 3, 2, generator=draw, dtype=torch.float64)
    torch.testing.assert_close(diagonal.linear(residual, slope), dense.linear(residual, slope))
    torch.testing.assert_close(diagonal.product_mean(), dense.product_mean())
    torch.testing.assert_close(diagonal.product_variance(), dense.product_variance())


def test_the_printed_formula_with_two_plain_factors():
    """Cov(W_ck, W_c'k') = U_cc' V_kk': σ_d² = (rᵀUr) V_dd + 2 (Vψ̃)_d (rᵀUHw_d) + (ψ̃ᵀVψ̃)(w_dᵀHUHw_d)."""
    draw = torch.Generator().manual_seed(1)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    root_u, root_v = normal(3, 3), normal(4, 4)
    u, v, weights, inputs, probabilities = root_u @ root_u.T, root_v @ root_v.T, normal(3, 4), normal(4), normal(3)
    probabilities = probabilities.softmax(0)
    residual = probabilities - torch.tensor([0.0, 1, 0], dtype=torch.float64)
    curvature = torch.diag(probabilities) - torch.outer(probabilities, probabilities)
    forms = DenseForms(
        weights=u[:, :, None] * v.diagonal(),
        cross=(u[:, :, None] * (v @ inputs))[None],
        logits=(u * (inputs @ v @ inputs))[None],
    )
    ours = forms.linear(residual[None], (curvature @ weights)[None])[0]
    for d in range(4):
        column = weights[:, d]
        wanted = residual @ u @ residual * v[d, d]
        wanted += 2 * (v @ inputs)[d] * (residual @ u @ curvature @ column)
        wanted += (inputs @ v @ inputs) * (column @ curvature @ u @ curvature @ column)
        torch.testing.assert_close(ours[d], wanted)
