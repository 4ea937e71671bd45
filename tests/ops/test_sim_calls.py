"""Calls of operators on an emulated chip: what the host refuses when it sees the values, and what is planned anew."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hajax

CHIP = {"implementation": "sim", "target": "ascend310p1"}
WITHIN = 4e-3  # inputs are rounded to fp16 (2**-11 of values up to 4) before the chip sees them, outputs once more


def arguments(tokens, channels=()):
    keys = jax.random.split(jax.random.key(tokens), 3)
    query, key = (jax.random.normal(k, (1, tokens, 1, 32)) / 32**0.5 for k in keys[:2])
    value = jax.random.normal(keys[2], (1, tokens, 2, 32))
    return {"query": query, "key": key, "value": value, "log_decay": jnp.full((1, tokens, 2, *channels), -0.1),
            "beta": jnp.full((1, tokens, 2), 0.5)}  # fmt: skip


def called(function, jit):
    def call(arrays):
        return function(**arrays, **CHIP)

    return jax.jit(call) if jit else call


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("beta", "message"), [
    (-0.5, r"beta\[0, 3, 1\]: expected a number of at least 0, as this plan takes logarithms of strengths, got -0.5"),
    (np.nan, r"beta\[0, 3, 1\]: expected a finite number, got nan"),
])  # fmt: skip
def test_strengths_that_the_chip_cannot_take_are_an_error_of_the_call(beta, message, jit):
    arrays = arguments(70)
    arrays["beta"] = arrays["beta"].at[0, 3, 1].set(beta)
    with pytest.raises(Exception, match=message):
        jax.block_until_ready(called(hajax.gated_delta_rule, jit)(arrays))


@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize(("changes", "message"), [
    ({"initial_state": jnp.full((1, 2, 32, 32), 1e5)}, r"saturated: .* results were clamped to the range of their type"),
    ({"value": jnp.full((1, 70, 2, 32), 1e6)}, r"value\[0, 0, 0\]: expected numbers that are finite in float16"),
    ({"initial_state": jnp.zeros((1, 2, 32, 32)).at[0, 1, 3, 4].set(jnp.nan)}, r"initial_state\[0, 1\]: expected finite numbers"),
])  # fmt: skip
def test_what_fp16_cannot_hold_is_an_error_of_the_call(changes, message, fast, monkeypatch):
    monkeypatch.setenv("HAJAX_SIM_FAST", fast)
    with pytest.raises(Exception, match=message):
        jax.block_until_ready(called(hajax.gated_delta_rule, False)(arguments(70) | changes))


@pytest.mark.parametrize(("erase", "message"), [(-0.5, "a number of at least 0"), (np.nan, "a finite number")])
def test_a_wrong_erase_strength_is_told_by_its_name(erase, message):
    arrays = arguments(70)
    arrays["erase"] = jnp.full((1, 70, 2), 0.5).at[0, 3, 1].set(erase)
    with pytest.raises(Exception, match=rf"erase\[0, 3, 1\]: expected {message}"):
        jax.block_until_ready(hajax.linear_attention(**arrays, delta=True, **CHIP))


def test_a_decay_per_channel_takes_strengths_below_0():
    arrays = arguments(70, (32,))
    arrays["beta"] = arrays["beta"].at[0, 3::4, 1].set(-0.5)
    output, state = called(hajax.kda, True)(arrays)
    expected, expected_state = hajax.kda(**arrays, implementation="xla")
    np.testing.assert_allclose(output, expected, atol=WITHIN)
    np.testing.assert_allclose(state, expected_state, atol=WITHIN)


def test_calls_of_another_length_have_plans_of_their_own():
    for tokens in (64, 300, 65):
        arrays = arguments(tokens)
        output, _ = called(hajax.gated_delta_rule, False)(arrays)
        np.testing.assert_allclose(output, hajax.gated_delta_rule(**arrays, implementation="xla")[0], atol=WITHIN)


@pytest.mark.parametrize("channels", [None, (), (32,)], ids=["no decay", "scalar", "per channel"])
@pytest.mark.parametrize("jit", [False, True])
def test_two_strengths_erase_and_write_apart(channels, jit):
    arrays = arguments(130, channels or ())
    beta, erase = jax.random.uniform(jax.random.key(1), (2, 1, 130, 2))
    arrays |= {"beta": beta.at[0, 3::7].set(0.0), "erase": erase.at[0, 5::7].set(0.0).at[0, 10::7].set(1.0)}
    if channels is None:
        del arrays["log_decay"]

    def call(arrays, **where):
        return hajax.linear_attention(**arrays, delta=True, **where)

    output, state = (jax.jit(lambda arrays: call(arrays, **CHIP)) if jit else lambda arrays: call(arrays, **CHIP))(arrays)
    expected, expected_state = call(arrays, implementation="xla")
    np.testing.assert_allclose(output, expected, atol=WITHIN)
    np.testing.assert_allclose(state, expected_state, atol=WITHIN)
