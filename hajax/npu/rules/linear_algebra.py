"""Factorisations, solutions of triangular systems and Fourier transforms, by the same LAPACK conventions on either side.

Those whose torch functions look at whether they converged wait for the device.
"""

from typing import Any

import torch

from hajax.npu.rules.registry import Context, Operation, refuse, rule


@rule("cholesky", fresh=True)
def _cholesky(equation: Any, context: Context) -> Any:
    if equation.params.get("symmetrize_input"):
        raise refuse(equation, "an input made symmetric")

    def factor(x: torch.Tensor) -> torch.Tensor:
        lower, info = torch.linalg.cholesky_ex(x)
        return torch.where((info != 0)[..., None, None], torch.nan, lower)

    return factor


@rule("triangular_solve", fresh=True)
def _triangular_solve(equation: Any, context: Context) -> Any:
    params = equation.params
    left, unit, transposed = params["left_side"], params["unit_diagonal"], params["transpose_a"]
    upper = params["lower"] if transposed else not params["lower"]

    def solve(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        given = a.mT if transposed else a
        return torch.linalg.solve_triangular(given, b, upper=upper, left=left, unitriangular=unit).contiguous()

    return solve


@rule("lu", fresh=True)
def _lu(equation: Any, context: Context) -> Any:
    def factor(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        factors, pivots, _ = torch.linalg.lu_factor_ex(x)
        return factors.contiguous(), pivots - 1, _permutation(pivots, x)

    return factor


@rule("lu_pivots_to_permutation", fresh=True)
def _lu_permutation(equation: Any, context: Context) -> Any:
    size, short = equation.params["permutation_size"], equation.invars[0].aval.shape[-1]

    def permutation(pivots: torch.Tensor) -> torch.Tensor:
        return _permutation(pivots + 1, torch.empty((*pivots.shape[:-1], size, short), device=context.device))

    return permutation


def _permutation(pivots: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The order of the rows that pivots, counted from 1, bring about."""
    permuted, _, _ = torch.lu_unpack(like, pivots, unpack_data=False)
    return permuted.argmax(-2).to(torch.int32)


@rule("qr", fresh=True)
def _qr(equation: Any, context: Context) -> Any:
    if equation.params.get("pivoting"):
        raise refuse(equation, "pivoting")
    mode = "complete" if equation.params["full_matrices"] else "reduced"
    return lambda x: tuple(part.contiguous() for part in torch.linalg.qr(x, mode=mode))


@rule("eigh", fresh=True)
def _eigh(equation: Any, context: Context) -> Any:
    params = equation.params
    if params.get("subset_by_index") not in (None, (0, equation.invars[0].aval.shape[-1])):
        raise refuse(equation, "a part of the spectrum")
    triangle = "L" if params["lower"] else "U"

    def decompose(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, vectors = torch.linalg.eigh(x, UPLO=triangle)
        return vectors.contiguous(), values

    return Operation(decompose, syncs=True)


@rule("svd", fresh=True)
def _svd(equation: Any, context: Context) -> Any:
    params = equation.params
    if params.get("subset_by_index") not in (None, (0, min(equation.invars[0].aval.shape[-2:]))):
        raise refuse(equation, "a part of the values")
    if not params["compute_uv"]:
        return Operation(lambda x: (torch.linalg.svdvals(x),), syncs=True)

    def decompose(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        left, values, right = torch.linalg.svd(x, full_matrices=params["full_matrices"])
        return values, left.contiguous(), right.contiguous()

    return Operation(decompose, syncs=True)


_TRANSFORMS = {0: torch.fft.fftn, 1: torch.fft.ifftn, 2: torch.fft.rfftn, 3: torch.fft.irfftn}


@rule("fft", fresh=True, complex=True)
def _fft(equation: Any, context: Context) -> Any:
    kind, lengths = int(equation.params["fft_type"]), tuple(equation.params["fft_lengths"])
    axes = tuple(range(-len(lengths), 0))
    return lambda x: _TRANSFORMS[kind](x, s=lengths, dim=axes).contiguous()
