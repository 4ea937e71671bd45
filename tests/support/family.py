"""The token recurrence of every delta-rule family member in fp64, and inputs with designed gates."""

import numpy as np

from hajax.mechanisms import MECHANISMS

MEMBERS = tuple(MECHANISMS.values())


def log_decays(draw, gates, shape):
    """none, weak, strong in every token, some tokens strong, some that reset, and all that leave nothing."""
    match gates:
        case "none":
            return np.zeros(shape)
        case "weak":
            return -1e-3 * draw.random(shape)
        case "strong":
            return -draw.uniform(2, 30, shape)
        case "mixed":
            return np.where(draw.random(shape) < 0.1, -draw.uniform(20, 60, shape), -1e-2)
        case "resets":
            return np.where(draw.random(shape) < 0.1, -1e4, -0.3)
        case "dead":
            return np.full(shape, -1e5)
    raise KeyError(gates)


def inputs_of(mechanism, tokens, key_dim, value_dim, *, gates="weak", seed=0):
    """Inputs of one head, with normalised keys and queries and an initial state."""
    draw = np.random.default_rng(seed)
    unit = lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True))
    inputs = {
        "query": unit(draw.standard_normal((tokens, key_dim))),
        "key": unit(draw.standard_normal((tokens, key_dim)) + 0.5),
        "value": draw.standard_normal((tokens, value_dim)),
        "beta": draw.uniform(0, 1, tokens),
        "scale": np.float64(key_dim**-0.5),
        "state_in": draw.standard_normal((key_dim, value_dim)),
    }
    if mechanism.decay != "none":
        shape = (tokens, key_dim) if mechanism.decay == "per_channel" else (tokens,)
        inputs["log_decay"] = log_decays(draw, gates, shape)
    if mechanism.strengths == 2:
        inputs["erase"] = draw.uniform(0, 1, tokens)
    return inputs


def recurrence(mechanism, inputs):
    """Output and final state, token by token."""
    state = inputs["state_in"].copy()
    outputs = np.empty(inputs["value"].shape)
    for t in range(len(outputs)):
        key, write = inputs["key"][t], inputs["beta"][t]
        erase = inputs["erase"][t] if mechanism.strengths == 2 else write
        if mechanism.decay != "none":
            state = state * np.exp(np.atleast_1d(inputs["log_decay"][t]))[:, None]
        update = write * inputs["value"][t]
        if mechanism.delta:
            update = update - erase * (key @ state)
        state = state + np.outer(key, update)
        outputs[t] = inputs["scale"] * (inputs["query"][t] @ state)
    return outputs, state
