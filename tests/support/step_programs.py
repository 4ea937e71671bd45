"""Random programs of steps, and a chip of vector clocks that walks one: what the emulator checks, in few lines of its own."""

import dataclasses
import random

import numpy as np
from step_blocks import touches

from hajax.plans.footprint import Dims, pipe
from hajax.plans.program import Buffer, Operand, Program, Step
from hajax.targets import npu

DIMS = Dims(chunk=64, key_dim=128)
CHIP = npu.load("ascend310p1")
PIPES = ("MTE2", "MTE1", "M", "V", "MTE3")
ALL_LANES = ((1 << 64) - 1, (1 << 64) - 1)
FRACTAL = {"L1": 512, "L0A": 512, "L0B": 512, "L0C": 1024, "UB": 512}


def program_of(body, buffers, setup=(), finish=(), stages=3):
    return Program(1, 128, tuple(buffers), tuple(setup), tuple(body), tuple(finish), (ALL_LANES,), (1.0, 2.0), {}, stages=stages)


def step_of(kind, draw, stage):
    """A step of a kind; `draw(space, fractals)` gives an operand with room for so many fractals."""
    n = draw.size()
    match kind:
        case "constant_to_l1" | "workspace_to_l1":
            return Step(kind, dst=draw("L1", n), size=16 * n, stage=stage)
        case "constant_to_ub" | "workspace_to_ub":
            return Step(kind, dst=draw("UB", n), size=16 * n, stage=stage)
        case "load_a" | "load_b":
            to = "L0A" if kind == "load_a" else "L0B"
            return Step(kind, dst=draw(to, n), src0=draw("L1", n), size=n, p=(1, 0, 0, 0, 0, 0, 0, 0), stage=stage)
        case "l1_to_ub":
            return Step(kind, dst=draw("UB", n), src0=draw("L1", n), size=16 * n, stage=stage)
        case "mmad":
            p = (n, 1, 1, 0, 0, 0, draw.random.randrange(2), 0)
            return Step(kind, dst=draw("L0C", n), src0=draw("L0A", n), src1=draw("L0B", 1), p=p, stage=stage)
        case "c_to_ub16":
            return Step(kind, dst=draw("UB", n), src0=draw("L0C", n), size=n, stage=stage)
        case "c_to_ub32":
            return Step(kind, dst=draw("UB", 2 * n), src0=draw("L0C", n), size=n, stage=stage)
        case "ub_to_c32":
            return Step(kind, dst=draw("L0C", n), src0=draw("UB", 2 * n), size=n, stage=stage)
        case "add32" | "mla32":
            places = {"dst": draw("UB", n), "src0": draw("UB", n), "src1": draw("UB", n)}
            return Step(kind, **places, size=2 * n, p=(1, 1, 1, 8, 8, 8, 0, 0), stage=stage)
        case "ub_to_l1":
            return Step(kind, dst=draw("L1", n), src0=draw("UB", n), size=16 * n, stage=stage)
        case "workspace_from_ub":
            return Step(kind, src0=draw("UB", n), size=16 * n, stage=stage)
    raise AssertionError(kind)


KINDS = (
    *("constant_to_l1", "workspace_to_ub", "load_a", "load_b", "l1_to_ub", "mmad", "mmad", "c_to_ub16", "c_to_ub32"),
    *("ub_to_c32", "add32", "add32", "mla32", "ub_to_l1", "ub_to_l1", "workspace_from_ub"),
)


class Draw:
    """Operands at random places of random buffers that are large enough."""

    def __init__(self, seed, buffers, most=12):
        self.random = random.Random(seed)
        self.buffers = buffers
        self.most = most

    def size(self):
        return self.random.randint(1, self.most)

    def __call__(self, space, fractals):
        size = fractals * FRACTAL[space]
        fits = [buffer for buffer in self.buffers if buffer.space == space and buffer.bytes >= size]
        buffer = self.random.choice(fits)
        return Operand(buffer.name, FRACTAL[space] * self.random.randint(0, (buffer.bytes - size) // FRACTAL[space]))


def random_buffers(seed, each=3, fractals=30, alternating=False):
    choose = random.Random(seed)
    buffers = []
    for space in FRACTAL:
        for number in range(each):
            versions = 2 if alternating and choose.random() < 0.3 else 1
            size = FRACTAL[space] * (fractals if number == 0 else choose.randint(fractals // 2, fractals))
            buffers.append(Buffer(f"{space}.{number}", space, size, versions))
    return buffers


def random_steps(seed, count, buffers, kinds=KINDS, stages=(2,), most=12):
    draw = Draw(seed, buffers, most)
    return [step_of(draw.random.choice(kinds), draw, draw.random.choice(stages)) for _ in range(count)]


def side_by_side(program):
    """The program with buffers at addresses of their own, in memories that never end."""
    at = dict.fromkeys(FRACTAL, 1024)
    slots = {space: sum(b.bytes for b in program.buffers if b.space == space and b.versions == 2) for space in FRACTAL}
    placed = []
    for versions in (2, 1):
        for buffer in program.buffers:
            if buffer.versions == versions:
                placed.append(dataclasses.replace(buffer, address=at[buffer.space]))
                at[buffer.space] += buffer.bytes
        at = {space: end + (slots[space] if versions == 2 else 0) for space, end in at.items()}
    return dataclasses.replace(program, buffers=tuple(placed), slot_bytes=slots)


class Faulty(Exception):
    """What the chip objects to."""


def walk(steps, program, *, odd=False, strict_ids=True):
    """Runs the steps of one section of a synchronised program in issue order; raises Faulty as the emulator would."""
    walk_parts([(steps, odd)], program, strict_ids=strict_ids)


def walk_item(program, iterations):
    """Setup, so many iterations of a body that carries flags, and finish."""
    bodies = [(program.body, number % 2 == 1) for number in range(iterations)]
    walk_parts([(program.setup, None), *bodies, (program.finish, None)], program)


def walk_parts(parts, program, *, strict_ids=True):
    """Steps with the parity of their iteration, of parts that a barrier of all pipes sets apart from iterations: None."""
    named = {buffer.name: buffer for buffer in program.buffers}
    clocks = {p: dict.fromkeys(PIPES, -1) for p in PIPES}
    flags = {}  # up: clock of the set
    passed = {}  # by flag: (pipe, step) before which its last wait stood
    accesses = []  # (space, blocks of 32 bytes, write, pipe, step)
    steps = []
    for number, (step, odd, apart) in enumerate(in_turn(parts)):
        steps.append(step)
        if apart:
            clocks = {p: dict.fromkeys(PIPES, number - 1) for p in PIPES}
            passed.clear()
        mine = None if step.opcode == "sync" else pipe(step)
        for flag in step.waits:
            if mine not in (None, flag.target):
                raise Faulty(f"step {number} of {mine} waits for {flag}")
            if flag not in flags:
                raise Faulty(f"step {number} waits for {flag}, which nobody has set")
            for p, known in flags.pop(flag).items():
                clocks[flag.target][p] = max(clocks[flag.target][p], known)
            passed[flag] = number
        if mine is not None:
            if step.barrier:
                clocks[mine][mine] = number - 1
            touch(number, step, mine, clocks[mine], named, program, accesses, odd)
        for flag in step.sets:
            if mine not in (None, flag.source):
                raise Faulty(f"step {number} of {mine} sets {flag}")
            if flag in flags:
                raise Faulty(f"step {number} sets {flag} a second time")
            if strict_ids and flag in passed:
                behind = [n for n in range(passed[flag], number) if pipe(steps[n]) == flag.target]
                if not behind or clocks[flag.source][flag.target] < behind[0]:
                    raise Faulty(f"step {number} sets {flag} before its pipe knows that the last wait has passed")
            clock = dict(clocks[flag.source])
            clock[flag.source] = number
            flags[flag] = clock
    if flags:
        raise Faulty(f"nobody takes {sorted(map(str, flags))}")


def in_turn(parts):
    """Steps, the parity of their iteration, and whether a barrier of all pipes is in front of them."""
    before = None
    for steps, odd in parts:
        for at, step in enumerate(steps):
            yield step, bool(odd), at == 0 and (odd is None or before is None)
        before = odd


def touch(number, step, mine, clock, named, program, accesses, odd):
    many = step.opcode == "mmad" and step.p[0] * step.p[1] >= CHIP.cube_barrier_tiles
    for one in touches(step, program, DIMS):
        buffer = named[one.buffer]
        base = buffer.address
        if buffer.versions == 2 and (step.stage + odd) % 2:
            base += program.slot_bytes[buffer.space]
        blocks = one.numbers() + base // 32
        for space, blocks2, write, other, earlier in accesses:
            if space != buffer.space or blocks2[0] > blocks[-1] or blocks[0] > blocks2[-1]:
                continue
            if not (write or one.write) or earlier == number or earlier <= clock[other]:
                continue
            if (other == mine and many and space == "L0C") or not np.isin(blocks, blocks2).any():
                continue
            raise Faulty(f"step {number} of {mine} is not ordered behind step {earlier} of {other} in {space}")
        accesses.append((buffer.space, blocks, one.write, mine, number))
