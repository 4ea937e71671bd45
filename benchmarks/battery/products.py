"""Products, convolutions, factorisations and transforms."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from battery.case import BF16, F16, F32, FLOATS, Program, fixed, normal, normals, over, rounding
from jax import lax


def _products(x: Any, y: Any) -> Any:
    return (
        x @ y,
        jnp.dot(x[0], y[:, 0]),
        jnp.vdot(x, x),
        jnp.inner(x, x),
        jnp.tensordot(x, y, 1),
        jnp.einsum("ij,jk->ki", x, y),
        jnp.einsum("ij,jk->k", x, y),
        jnp.einsum("ij,ij->i", x, x),
        jnp.einsum("ij->j", x),
        jnp.matmul(x[None], y),
        x @ y[:, 0],
        x[0] @ y,
    )


def _batched(x: Any, y: Any) -> Any:
    return (
        jnp.einsum("bhqd,bhkd->bhqk", x, y), jnp.einsum("bhqd,bgkd->bhgqk", x, y), jnp.einsum("bhqd,bhqe->bhde", x, y),
        jnp.einsum("bhqd,hqe->bde", x, y[0]), jnp.einsum("bhqd,bhqd->bh", x, y),
        lax.dot_general(x, y, (((3,), (3,)), ((1, 0), (1, 0)))), jax.vmap(jnp.dot, (0, None))(x[0], y[0, 0].T),
    )  # fmt: skip


def _preferred(x: Any, y: Any) -> Any:
    return jnp.matmul(x, y, preferred_element_type=jnp.float32), jnp.matmul(x, y)


def _narrowed(x: Any, y: Any) -> Any:
    return jnp.matmul(x, y, preferred_element_type=jnp.bfloat16)


def _whole_products(x: Any, y: Any) -> Any:
    return (
        jnp.matmul(x, y, preferred_element_type=jnp.int32),
        jnp.matmul(x, y),
        jnp.einsum("ij,jk->ik", x, y),
        jnp.dot(x[0], y[:, 0]),
    )


def _word_products(x: Any, y: Any) -> Any:
    return jnp.matmul(x, y), jnp.einsum("ij,jk->k", x, y)


def _convolve(**options: Any) -> Any:
    return lambda x, w: lax.conv_general_dilated(x, w, **options)


# name: (operand, kernel, options)
_CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 7, 8), (4, 3, 3, 2), {"window_strides": (1, 1), "padding": "VALID"}),
    "same, strided": ((2, 3, 7, 8), (4, 3, 3, 3), {"window_strides": (2, 1), "padding": "SAME"}),
    "channels last": (
        (2, 7, 8, 3),
        (3, 2, 3, 4),
        {"window_strides": (1, 2), "padding": ((1, 0), (2, 1)), "dimension_numbers": ("NHWC", "HWIO", "NHWC")},
    ),
    "negative edges": ((2, 3, 7, 8), (4, 3, 2, 2), {"window_strides": (1, 1), "padding": ((-1, 2), (0, -2))}),
    "grouped": ((2, 6, 7), (4, 3, 3), {"window_strides": (1,), "padding": "SAME", "feature_group_count": 2}),
    "depthwise causal": ((2, 6, 7), (6, 1, 4), {"window_strides": (1,), "padding": ((3, 0),), "feature_group_count": 6}),
    "transposed": ((2, 3, 5, 4), (4, 3, 3, 3), {"window_strides": (1, 1), "padding": ((2, 1), (1, 2)), "lhs_dilation": (2, 3)}),
    "dilated": ((2, 3, 9, 9), (4, 3, 3, 2), {"window_strides": (1, 2), "padding": "VALID", "rhs_dilation": (2, 3)}),
    "batch groups": ((4, 3, 7), (6, 3, 3), {"window_strides": (1,), "padding": "VALID", "batch_group_count": 2}),
    "batch groups first": (
        (3, 7, 6),
        (3, 3, 6),
        {"window_strides": (1,), "padding": "VALID", "batch_group_count": 3, "dimension_numbers": ("CWN", "IWO", "WNC")},
    ),
    "three axes": ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), {"window_strides": (1, 1, 1), "padding": "SAME"}),
    "no result": ((2, 3, 2), (4, 3, 3), {"window_strides": (1,), "padding": "VALID"}),
}


def _convolution_gradients(options: dict[str, Any]) -> Any:
    def gradients(x: Any, w: Any) -> Any:
        return jax.grad(lambda x, w: jnp.sum(jnp.sin(lax.conv_general_dilated(x, w, **options))), argnums=(0, 1))(x, w)

    return gradients


def _transposed(x: Any, w: Any) -> Any:
    return lax.conv_transpose(x, w, (2, 2), "SAME"), lax.conv_transpose(x, w, (1, 2), "VALID", transpose_kernel=False)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v), jax.nn.dot_product_attention(q, k, v, is_causal=True, scale=0.3)


def _attention_gradient(q: Any, k: Any, v: Any) -> Any:
    return jax.grad(lambda q, k, v: jnp.sum(jnp.sin(jax.nn.dot_product_attention(q, k, v, is_causal=True))), (0, 1, 2))(q, k, v)


def _layer_norm(x: Any, w: Any) -> Any:
    def norm(x: Any) -> Any:
        wide = x.astype(jnp.float32)
        return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-6) * w).astype(x.dtype)

    return norm(x), jax.grad(lambda x: jnp.sum(norm(x).astype(jnp.float32) ** 2 * 0.5))(x), jax.nn.standardize(x)


def _definite(rng: Any) -> Any:
    x = rng.standard_normal((2, 5, 5)).astype(F32)
    return (x @ x.transpose(0, 2, 1) + 5 * np.eye(5, dtype=F32),)


def _triangles(rng: Any) -> Any:
    a = rng.standard_normal((2, 5, 5)).astype(F32) + 5 * np.eye(5, dtype=F32)
    return a, rng.standard_normal((2, 5, 3)).astype(F32), rng.standard_normal((2, 3, 5)).astype(F32)


def _triangular(a: Any, left: Any, right: Any) -> Any:
    return [
        lax.linalg.triangular_solve(
            a, left if left_side else right, left_side=left_side, lower=lower, transpose_a=transpose, unit_diagonal=unit
        )
        for left_side in (True, False)
        for lower in (True, False)
        for transpose in (True, False)
        for unit in (True, False)
    ]


def _solved(a: Any, b: Any, c: Any) -> Any:
    return (
        jnp.linalg.solve(a, b),
        jnp.linalg.inv(a),
        jnp.linalg.det(a),
        jnp.linalg.slogdet(a),
        jax.scipy.linalg.solve_triangular(a[0], b[0]),
    )


def _factors(a: Any) -> Any:
    """What of a factorisation does not depend on signs."""
    q, r = jnp.linalg.qr(a)
    return jnp.abs(r), jnp.einsum("bij,bjk->bik", q, r), jnp.abs(jnp.linalg.qr(a, mode="r"))


def _singular(a: Any) -> Any:
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return s, (u * s[:, None, :]) @ v, jnp.linalg.svd(a, compute_uv=False), jnp.linalg.matrix_rank(a)


def _spectrum(a: Any) -> Any:
    values, vectors = jnp.linalg.eigh(a)
    return values, (vectors * values[:, None, :]) @ jnp.swapaxes(vectors, 1, 2), jnp.linalg.eigvalsh(a)


_RIGHT_SHAPES = ((5, 7), (7, 4))


def _square(rng: Any) -> Any:
    return ((rng.standard_normal((4, 4)) + 4 * np.eye(4)).astype(F32),)


def _gradients(a: Any) -> Any:
    """Each takes some solutions of systems, whose condition is near 10."""
    return (
        jax.grad(lambda a: jnp.linalg.slogdet(a)[1])(a),
        jax.grad(lambda a: jnp.sum(jnp.linalg.inv(a)))(a),
        jax.grad(lambda a: jnp.sum(jnp.linalg.svd(a, compute_uv=False)))(a),
        jax.grad(lambda a: jnp.linalg.eigh(a @ a.T)[0][1])(a),
        jax.grad(lambda a: jnp.sum(jnp.abs(jnp.linalg.qr(a)[1])))(a),
    )


PROGRAMS = [
    *over(FLOATS, "products", _products, lambda kind: normals(kind, *_RIGHT_SHAPES), ulps=rounding(35), floor=None),
    *over(
        (F32, BF16),
        "products with batches",
        _batched,
        lambda kind: normals(kind, (2, 3, 5, 4), (2, 3, 5, 4)),
        ulps=rounding(35),
        floor=None,
    ),
    *over((F16, BF16), "wider result", _preferred, lambda kind: normals(kind, *_RIGHT_SHAPES), ulps=rounding(7), floor=None),
    Program("narrower result", _narrowed, normals(F32, *_RIGHT_SHAPES), ulps=2, floor=None),
    Program(
        "products of two dtypes",
        lambda x, y: (x @ y, lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)),
        lambda rng: (rng.standard_normal((5, 7)).astype(F32), rng.standard_normal((7, 4)).astype(BF16)),
        ulps=rounding(7),
        floor=None,
    ),
    *over(
        (np.int8, np.int16, np.int32, np.uint8),
        "whole products",
        _whole_products,
        lambda kind: lambda rng: (rng.integers(0, 127, (5, 7)).astype(kind), rng.integers(0, 127, (7, 4)).astype(kind)),
    ),
    *over(
        (np.uint16, np.uint32),
        "word products",
        _word_products,
        lambda kind: (
            lambda rng: (
                rng.integers(0, 2**16 - 1, (5, 7)).astype(kind) * kind(40503),
                rng.integers(0, 2**16 - 1, (7, 4)).astype(kind) * kind(60001),
            )
        ),
    ),
    Program("boolean products", jnp.matmul, lambda rng: (rng.random((3, 4)) > 0.5, rng.random((4, 2)) > 0.5)),
    Program(
        "products of nothing",
        lambda x, y: (x @ y, y @ x, jnp.einsum("ij,jk->", x, y)),
        fixed(np.zeros((3, 0), F32), np.zeros((0, 3), F32)),
    ),
    Program(
        "complex products",
        lambda x, y: (x @ y, jnp.einsum("ij,ij->i", x, jnp.conj(x))),
        lambda rng: tuple((rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(np.complex64) for s in _RIGHT_SHAPES),
        ulps=rounding(14),
        floor=None,
    ),
    *(
        Program(f"convolution {name}", _convolve(**options), normals(F32, x, w), ulps=rounding(np.prod(w[1:])), floor=None)
        for name, (x, w, options) in _CONVOLUTIONS.items()
    ),
    *(
        Program(
            f"convolution {name} gradients",
            _convolution_gradients(options),
            normals(F32, x, w),
            ulps=16 * rounding(np.prod(w[1:])),
            floor=None,
        )
        for name, (x, w, options) in _CONVOLUTIONS.items()
        if name != "no result"
    ),
    *over(
        (F16, BF16),
        "convolution of halves",
        _convolve(window_strides=(1,), padding="SAME"),
        lambda kind: normals(kind, (2, 3, 9), (4, 3, 3)),
        ulps=rounding(9),
        floor=None,
    ),
    Program(
        "convolution of whole numbers",
        _convolve(window_strides=(1,), padding="SAME"),
        lambda rng: (rng.integers(-9, 9, (2, 3, 9)).astype(np.int32), rng.integers(-9, 9, (4, 3, 3)).astype(np.int32)),
        refuses="conv_general_dilated",
    ),
    Program("conv_transpose", _transposed, normals(F32, (1, 4, 5, 3), (3, 2, 3, 4)), ulps=rounding(18), floor=None),
    Program(
        "convolution batched",
        lambda x, w: (
            jax.vmap(_convolve(window_strides=(1,), padding="SAME"), (0, None))(x, w[0]),
            jax.vmap(_convolve(window_strides=(1,), padding="SAME"))(x, w),
        ),
        normals(F32, (2, 2, 3, 7), (2, 4, 3, 3)),
        ulps=rounding(9),
        floor=None,
    ),
    *over(
        (F32, BF16),
        "attention",
        _attention,
        lambda kind: normals(kind, (2, 6, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8)),
        ulps=rounding(14),
        floor=None,
    ),
    Program(
        "attention gradient",
        _attention_gradient,
        normals(F32, (2, 6, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8)),
        ulps=16 * rounding(14),
        floor=None,
    ),
    *over(
        (F32, BF16),
        "norms of rows",
        _layer_norm,
        lambda kind: lambda rng: (rng.standard_normal((4, 16)).astype(kind), rng.standard_normal(16).astype(F32)),
        ulps=rounding(64),
        floor=None,
    ),
    Program(
        "cholesky",
        lambda a: (jnp.linalg.cholesky(a), jax.grad(lambda a: jnp.sum(jnp.linalg.cholesky(a) ** 2))(a)),
        _definite,
        ulps=rounding(25) * 4,
        floor=None,
    ),
    Program(
        "cholesky of the indefinite", jnp.linalg.cholesky, fixed(np.array([[[1, 2], [2, 1]], [[4, 2], [2, 3]]], F32)), ulps=8
    ),
    Program("triangular_solve", _triangular, _triangles, ulps=rounding(25) * 4, floor=None),
    Program("solve inv det", _solved, _triangles, ulps=rounding(25) * 8, floor=None),
    Program(
        "lu", lambda a: (lax.linalg.lu(a), jax.scipy.linalg.lu(a[0])), normal(F32, 2, 5, 5), ulps=rounding(25) * 4, floor=None
    ),
    Program("pivots", lambda p: lax.linalg.lu_pivots_to_permutation(p, 5), fixed(np.array([[2, 1, 4], [0, 3, 2]], np.int32))),
    Program("lu of the tall", lax.linalg.lu, normal(F32, 2, 6, 3), ulps=rounding(25) * 4, floor=None),
    Program("qr", _factors, normal(F32, 2, 6, 4), ulps=rounding(25) * 4, floor=None),
    Program("svd", _singular, normal(F32, 2, 6, 4), ulps=rounding(25) * 8, floor=None),
    Program("eigh", _spectrum, _definite, ulps=rounding(25) * 8, floor=None),
    Program("eig", jnp.linalg.eigvals, _definite, refuses="eig"),
    Program(
        "matrix functions",
        lambda a: (jnp.linalg.matrix_power(a, 3), jnp.linalg.multi_dot([a[0], a[1], a[0]]), jnp.linalg.pinv(a[0])),
        _definite,
        ulps=rounding(125) * 8,
        floor=None,
    ),
    Program(
        "fft",
        lambda x: (
            jnp.fft.fft(x),
            jnp.fft.ifft(x),
            jnp.fft.rfft(x),
            jnp.fft.irfft(x, 9),
            jnp.fft.fft2(x),
            jnp.fft.rfft2(x),
            jnp.fft.irfft2(jnp.fft.rfft2(x)),
        ),
        normal(F32, 4, 8),
        ulps=rounding(32),
        floor=None,
    ),
    Program(
        "fft gradient",
        jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2)),
        normal(F32, 4, 8),
        ulps=8 * rounding(32),
        floor=None,
    ),
    Program(
        "ragged products",
        lax.ragged_dot,
        lambda rng: (
            rng.standard_normal((6, 4)).astype(F32),
            rng.standard_normal((3, 4, 5)).astype(F32),
            np.array([2, 0, 4], np.int32),
        ),
        ulps=rounding(4),
        floor=None,
        refuses="ragged_dot_general",
    ),
    Program("linear algebra gradients", _gradients, _square, ulps=40 * rounding(64), floor=None),
    Program(
        "singular matrices", lambda a: (lax.linalg.lu(a), jnp.linalg.det(a)), fixed(np.array([[1, 2], [2, 4]], F32)), ulps=16
    ),
]
