"""Products with weights [out, in]: rounded once, whatever the number of rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models.layers.linear import linear


@pytest.mark.parametrize("rows", [1, 2, 128, 129, 300])
def test_bfloat16_products_are_sums_in_fp32_rounded_once(rows):
    generator = np.random.default_rng(rows)
    x, weight = (jnp.asarray(generator.integers(-8, 9, shape), jnp.bfloat16) for shape in ((rows, 200), (7, 200)))
    exact = np.asarray(x, np.float64) @ np.asarray(weight, np.float64).T  # integers below 2^24: exact in fp32, not in bfloat16
    assert np.abs(exact).max() > 256
    found = jax.jit(linear)(x, weight)
    assert found.dtype == jnp.bfloat16
    assert np.array_equal(found, jnp.asarray(exact, jnp.bfloat16))
    wide = jax.jit(lambda x, weight: linear(x, weight, preferred_element_type=jnp.float32))(x, weight)
    assert wide.dtype == jnp.float32
    assert np.array_equal(wide, exact)
