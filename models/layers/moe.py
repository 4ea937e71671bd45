"""Mixture of experts: sigmoid routing with a correction bias, group-limited, and experts as grouped matrix products.

All shapes are static and no token is dropped: the choices are sorted by expert and each expert's rows padded to whole blocks,
of which there are at most choices / rows + experts. A block reads one expert. DeepSeek-AI, "DeepSeek-V3" (2024).
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from hajax.models.layers.linear import linear
from hajax.models.layers.mlp import MLPWeights, silu_gate, swiglu

from hajax.ops._named import named

_MOST_ROWS = 128
_GATHERED = 1 << 22  # at most this many numbers of experts side by side (16 MiB in fp32); more blocks go one after another
_LEFT_OUT = -1e30  # finite: a chip without infinities runs the same program


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class MoEWeights:
    """router: [E, hidden] and bias: [E], fp32; gate_up: [E, 2 inner, hidden], gates first; down: [E, hidden, inner]; shared:
    the experts that read every token, as one, or None."""

    router: jax.Array
    bias: jax.Array
    gate_up: jax.Array
    down: jax.Array
    shared: MLPWeights | None


@dataclasses.dataclass(frozen=True, slots=True)
class Routing:
    """How many experts read a token, from how many of the groups, and what their weights are divided and multiplied by."""

    experts: int
    groups: int = 1
    chosen_groups: int = 1
    renormalise: bool = True
    scaling: float = 1.0


def mixture(weights: MoEWeights, x: jax.Array, routing: Routing) -> jax.Array:
    """x [..., hidden] -> [..., hidden]: the chosen experts' outputs, weighed, plus the shared experts'."""
    rows = x.reshape(-1, x.shape[-1])
    chosen, factors = route(weights, rows, routing)
    mixed = apply_experts(weights, rows, chosen, factors).reshape(x.shape)
    return mixed if weights.shared is None else mixed + swiglu(weights.shared, x)


def route(weights: MoEWeights, rows: jax.Array, routing: Routing) -> tuple[jax.Array, jax.Array]:
    """rows [N, hidden] -> (chosen experts [N, k] int32, their weights [N, k] fp32).

    Scores are sigmoid(router x) in fp32; the bias takes part in the choice alone. A group's score is the sum of its two best
    experts'; experts outside the best groups are not chosen.
    """
    return _route(linear(rows.astype(jnp.float32), weights.router), weights.bias, routing=routing)


@named("route")
def _route(raw: jax.Array, bias: jax.Array, *, routing: Routing) -> tuple[jax.Array, jax.Array]:
    scores = jax.nn.sigmoid(raw)
    ranked = scores + bias[None]
    count, experts = scores.shape
    if routing.groups > 1:
        grouped = ranked.reshape(count, routing.groups, experts // routing.groups)
        best = jnp.sum(jax.lax.top_k(grouped, min(2, grouped.shape[-1]))[0], axis=-1)
        _, groups = jax.lax.top_k(best, routing.chosen_groups)
        inside = jnp.any(groups[:, :, None] == jnp.arange(routing.groups, dtype=groups.dtype)[None, None], axis=1)
        ranked = jnp.where(inside[:, :, None], grouped, _LEFT_OUT).reshape(count, experts)
    _, chosen = jax.lax.top_k(ranked, routing.experts)
    factors = jnp.take_along_axis(scores, chosen, axis=1, mode="promise_in_bounds")
    if routing.renormalise:
        factors = factors / (jnp.sum(factors, axis=1, keepdims=True) + 1e-20)
    return chosen, factors * routing.scaling


def apply_experts(weights: MoEWeights, rows: jax.Array, chosen: jax.Array, factors: jax.Array) -> jax.Array:
    """The sum over a row's chosen experts of factor * down(silu(gate x) * up x): rows [N, hidden] -> [N, hidden].

    The sum is fp32, in the order of the choices.
    """
    return _experts(rows, chosen, factors, weights.gate_up, weights.down)


@named("experts")
def _experts(rows: jax.Array, chosen: jax.Array, factors: jax.Array, gate_up: jax.Array, down: jax.Array) -> jax.Array:
    count, width = rows.shape
    each = chosen.shape[1]
    choices, experts = count * each, down.shape[0]
    size = rows_in_block(choices, experts)
    if size == 1:  # few tokens: a block a choice, as it comes
        blocks = rows.at[jax.lax.div(jnp.arange(choices, dtype=jnp.int32), each)].get(mode="promise_in_bounds")[:, None]
        outputs = _multiply(gate_up, down, blocks, chosen.reshape(-1))[:, 0]
    else:
        owners, places, sources = _blocks(chosen.reshape(-1), each, experts, size)
        blocks = rows.at[sources].get(mode="promise_in_bounds").reshape(-1, size, width)
        outputs = _multiply(gate_up, down, blocks, owners).reshape(-1, width)
        outputs = outputs.at[places].get(mode="promise_in_bounds")
    wide = outputs.astype(jnp.float32).reshape(count, each, width) * factors[:, :, None]
    return jnp.sum(wide, axis=1).astype(rows.dtype)


def rows_in_block(choices: int, experts: int) -> int:
    """The power of two above half an expert's even share of the choices, which keeps padding to about half of the work."""
    share = choices // (2 * experts)
    return 1 if share < 1 else min(1 << share.bit_length(), _MOST_ROWS)


def _blocks(chosen: jax.Array, each: int, experts: int, size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """For choices chosen [A]: each block's expert, each choice's padded row, and each padded row's token."""
    choices = chosen.shape[0]
    blocks = min(choices, choices // size + experts)
    order = jnp.argsort(chosen, stable=True)
    members = jnp.sum(chosen[:, None] == jnp.arange(experts, dtype=chosen.dtype)[None], axis=0, dtype=jnp.int32)
    padded = jax.lax.div(members + (size - 1), size) * size
    stops, padded_stops = jnp.cumsum(members), jnp.cumsum(padded)
    shift = (padded_stops - padded) - (stops - members)  # from a sorted choice's number to its padded row
    ordered = chosen.at[order].get(mode="promise_in_bounds")
    places = jnp.arange(choices, dtype=jnp.int32) + shift.at[ordered].get(mode="promise_in_bounds")
    tokens = jax.lax.div(order.astype(jnp.int32), each)
    sources = jnp.zeros(blocks * size, jnp.int32).at[places].set(tokens, mode="promise_in_bounds")
    starts = jnp.arange(blocks, dtype=jnp.int32) * size
    owners = jnp.sum(padded_stops[None] <= starts[:, None], axis=1, dtype=jnp.int32)
    back = jnp.zeros(choices, jnp.int32).at[order].set(places, mode="promise_in_bounds")
    return jnp.minimum(owners, experts - 1), back, sources  # blocks behind the last row compute what nobody reads


def _multiply(gate_up: jax.Array, down: jax.Array, blocks: jax.Array, owners: jax.Array) -> jax.Array:
    """blocks [n, rows, hidden], each through its owner's SwiGLU: together where the experts fit side by side, else in turn."""
    inner = down.shape[2]

    def one(block: jax.Array, owner: jax.Array) -> jax.Array:
        both = gate_up.at[owner].get(mode="promise_in_bounds").astype(block.dtype)
        back = down.at[owner].get(mode="promise_in_bounds").astype(block.dtype)
        wide = linear(block, both)
        return linear(silu_gate(wide[..., :inner], wide[..., inner:]), back)

    if blocks.shape[0] * (3 * inner * blocks.shape[2]) <= _GATHERED:
        return jax.vmap(one)(blocks, owners)
    return jax.lax.map(lambda pair: one(*pair), (blocks, owners))
