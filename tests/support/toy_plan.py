"""A small Ascend plan with every memory, pipe and section in it, made by hand: S += Q K^T, O = scale S, chunk after chunk.

Its steps are ordered one after the other: a flag from each to the next, or a barrier where both are of one pipe.
"""

import dataclasses

import numpy as np

from hajax import abi
from hajax.mechanisms import GATED_DELTA_RULE
from hajax.plans import Plan, Shape
from hajax.plans.footprint import pipe
from hajax.plans.interpret import Inputs
from hajax.plans.program import LOAD, MAP, SPACES, Buffer, Flag, Item, Launch, Operand, Program, Programs, Step

CHUNK = 32
SIDE = CHUNK // 16
HALF_TILE, FULL_TILE = CHUNK * CHUNK * 2, CHUNK * CHUNK * 4
ALL = (2**64 - 1, 2**64 - 1)
TENSOR = abi.table("tensors")
CONSTANTS = bytes(8192) + np.full(CHUNK, 0.5, np.float32).tobytes()


def tile(opcode, tensor, column=0, count=SIDE, layout=0, rows=0, size=0):
    return {"opcode": opcode, "count": count, "p": (TENSOR[tensor], 0, column, layout, rows, 0, 0, size)}


BUFFERS = (
    Buffer("q", "L1", HALF_TILE, versions=2),
    Buffer("k", "L1", HALF_TILE, versions=2),
    Buffer("beta", "UB", CHUNK * 4, versions=2),
    Buffer("x", "UB", FULL_TILE, versions=2),
    Buffer("a", "L0A", HALF_TILE),
    Buffer("b", "L0B", HALF_TILE),
    Buffer("c", "L0C", FULL_TILE),
    Buffer("state", "UB", FULL_TILE, kept=True),
    Buffer("half", "UB", CHUNK * 4, kept=True),
    Buffer("out", "UB", FULL_TILE),
    Buffer("out16", "UB", HALF_TILE),
)


def at(buffer, offset=0):
    return Operand(buffer, offset)


SETUP = (
    Step("constant_to_ub", at("half"), size=CHUNK * 4 // 32, constant=8192 // 32, first=True, label="halves"),
    Step(dst=at("state"), label="state in", **tile("rows_to_ub", "state_in", layout=1, rows=1)),
)
MAPS = (
    Step(
        "load_a", at("a"), at("q"), count=SIDE, size=SIDE, p=(SIDE, 1, 0, SIDE, 0, 0, 0, 0), stage=MAP, label="Q"
    ),  # rows of fractals from columns of fractals
    Step("load_b", at("b"), at("k"), count=SIDE, size=SIDE, p=(1, SIDE, 0, SIDE, 0, 0, 0, 0), stage=MAP, label="K^T"),
    Step("mmad", at("c"), at("a"), at("b"), p=(SIDE, SIDE, SIDE, 0, 0, 0, 1, 0), stage=MAP, label="Q K^T"),
    Step("c_to_ub32", at("x"), at("c"), size=SIDE * SIDE, stage=MAP, label="Q K^T out"),
)
LOADS = (
    Step(dst=at("q"), stage=LOAD, label="load Q", **tile("rows_to_l1", "query")),
    Step(dst=at("k"), stage=LOAD, label="load K", **tile("rows_to_l1", "key")),
    Step("gate_to_ub", at("beta"), p=(TENSOR.beta, 0, 0, 0, 0, 0, 0, 0), stage=LOAD, label="load beta"),
)
REPEATS = CHUNK * CHUNK // 64
STATES = (
    Step("add32", at("state"), at("state"), at("x"), size=REPEATS, p=(1, 1, 1, 8, 8, 8, 0, 0), label="S + Q K^T"),
    Step("muls32", at("out"), at("state"), size=REPEATS, p=(1, 1, 0, 8, 8, 0, 0, 0), label="scale S"),
    Step("to16", at("out16"), at("out"), size=REPEATS, p=(1, 1, 0, 4, 8, 0, 0, 0), label="round O"),
    Step(src0=at("out16"), label="O", **tile("rows_from_ub", "output", layout=1, size=2)),
)
FINISH = (Step(src0=at("state"), label="state out", **tile("rows_from_ub", "state_out", layout=1, rows=1, size=4)),)


def chained(steps):
    """Each step after the one before it is over."""
    found = []
    for step in steps:
        if not found:
            found.append(step)
        elif pipe(found[-1]) == pipe(step):
            found.append(dataclasses.replace(step, barrier=True))
        else:
            flag = Flag(pipe(found[-1]), pipe(step), 0)
            found[-1] = dataclasses.replace(found[-1], sets=(flag,))
            found.append(dataclasses.replace(step, waits=(flag,)))
    return tuple(found)


def placed(program):
    """Buffers one after the other, alternating ones first, all of a space's second versions as far behind their first."""
    top = dict.fromkeys(SPACES, 0) | {"UB": 512}
    buffers, slots = [], {}
    for versions in (2, 1):
        for buffer in program.buffers:
            if buffer.versions == versions:
                buffers.append(dataclasses.replace(buffer, address=top[buffer.space]))
                top[buffer.space] += -(-buffer.bytes // 1024) * 1024
        if versions == 2:
            slots = {space: end for space, end in top.items() if end > 512}
            top = {space: end + slots.get(space, 0) for space, end in top.items()}
    return dataclasses.replace(program, buffers=tuple(buffers), slot_bytes=slots, step_address=-(-top["UB"] // 32) * 32)


def toy_program(place=True, **changes):
    body = chained((*STATES, *MAPS, *LOADS))
    program = Program(1, CHUNK, BUFFERS, chained(SETUP), body, FINISH, (ALL,), (0.0,), {})
    program = dataclasses.replace(program, **changes)
    return placed(program) if place else program


SHAPE = Shape(2, 70, 1, 1, 3, CHUNK, CHUNK, "float16", "float16")


def toy_programs(program=None, cores=2, shape=SHAPE):
    program = program or toy_program()
    items = [Item(0, sequence, head, 0) for sequence in range(shape.batch) for head in range(shape.value_heads)]
    shares = tuple(tuple(items[core::cores]) for core in range(cores))
    return Programs(2002, CHUNK, (program,), (Launch(shares),), CONSTANTS)


def toy_plan(programs=None, shape=SHAPE):
    return Plan(3, GATED_DELTA_RULE, shape, "ascend310p1", "toy", programs or toy_programs(), ())


def toy_inputs(shape=SHAPE, seed=0, bounds=None):
    draw = np.random.default_rng(seed)
    rows = (shape.batch, shape.tokens)

    def halves(*size):
        return draw.standard_normal(size).astype(np.float16)

    return Inputs(
        query=halves(*rows, shape.key_heads, CHUNK),
        key=halves(*rows, shape.key_heads, CHUNK),
        value=halves(*rows, shape.value_heads, CHUNK),
        log_decay=None,
        beta=draw.random((*rows, shape.value_heads), np.float32),
        state_in=draw.standard_normal((shape.batch, shape.sequences, shape.value_heads, CHUNK, CHUNK)).astype(np.float32),
        bounds=bounds,
    )


def toy_reference(inputs, scale, shape=SHAPE):
    """What the toy computes, in fp64; tokens beyond the last one of a sequence are zero."""
    output = np.zeros(inputs.value.shape)
    state_out = np.array(inputs.state_in, np.float64)
    for row in range(shape.batch):
        for n in range(shape.sequences):
            start, end = (0, shape.tokens) if inputs.bounds is None else inputs.bounds[row, n : n + 2]
            for head in range(shape.value_heads):
                state = state_out[row, n, head]
                key_head = head // (shape.value_heads // shape.key_heads)
                for first in range(start, end, CHUNK):
                    q, k = np.zeros((2, CHUNK, CHUNK))
                    some = min(CHUNK, end - first)
                    q[:some] = inputs.query[row, first : first + some, key_head]
                    k[:some] = inputs.key[row, first : first + some, key_head]
                    state += q @ k.T
                    output[row, first : first + some, head] = scale * state[:some]
    return output, state_out
