"""The interpreter's memories: arrays of a core, which steps see through views, and GM's arrays as the kernel's host makes them.

Bytes that nothing has written are 0xff, so that numbers read from them are NaN.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hajax.plans.program import Buffer, Operand, Program

Array = np.ndarray[Any, np.dtype[Any]]
NEVER_WRITTEN = 0xFF


@dataclass(frozen=True, slots=True)
class Memory:
    """A core's memories for one program: an array for each space when its buffers have addresses, else for each version of each.

    places: buffer -> for even and for odd chunks, the array's name and the byte where the buffer starts.
    """

    arrays: Mapping[str, Array]
    places: Mapping[str, tuple[tuple[str, int], tuple[str, int]]]
    buffers: Mapping[str, Buffer]

    def view(
        self,
        operand: Operand | None,
        odd: bool,
        dtype: Any,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        moved: int = 0,
    ) -> Array:
        """Elements from `moved` bytes behind the operand on, `strides` in bytes; without them they lie side by side."""
        assert operand is not None, "an opcode's operand is missing"
        name, start = self.places[operand.buffer][odd]
        return np.ndarray(shape, dtype, self.arrays[name].data, start + operand.offset + moved, strides)

    def clear(self) -> None:
        """Forgets everything."""
        for array in self.arrays.values():
            array.fill(NEVER_WRITTEN)


def memory_of(program: Program) -> Memory:
    """Memories just large enough for the program's buffers. Raises ValueError when only some buffers have addresses."""
    placed = [buffer.address is not None for buffer in program.buffers]
    if any(placed) and not all(placed):
        missing = [buffer.name for buffer in program.buffers if buffer.address is None]
        raise ValueError(f"program.buffers: expected addresses for all or none, got none for {', '.join(missing)}")
    sizes: dict[str, int] = {}
    places = {}
    for buffer in program.buffers:
        spots = []
        for version in range(2):
            second = version == 1 and buffer.versions == 2
            if buffer.address is None:
                spot = (f"{buffer.name} {'odd' if second else 'even'}", 0)
            else:
                spot = (buffer.space, buffer.address + (program.slot_bytes[buffer.space] if second else 0))
            sizes[spot[0]] = max(sizes.get(spot[0], 0), spot[1] + buffer.bytes)
            spots.append(spot)
        places[buffer.name] = (spots[0], spots[1])
    arrays = {name: np.full(size, NEVER_WRITTEN, np.uint8) for name, size in sizes.items()}
    return Memory(arrays, places, {buffer.name: buffer for buffer in program.buffers})


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arrays of a call, as hj_delta_call has them; sequences of all rows follow one another in `bounds` [B, N + 1].

    log_decay: None, [B, T, Hv] or [B, T, Hv, Dk]; beta [B, T, Hv], or [B, T, Hv, 2] with erase and write strength.
    """

    query: Array
    key: Array
    value: Array
    log_decay: Array | None
    beta: Array
    state_in: Array
    bounds: Array | None = None
    output_dtype: Any = np.float16


@dataclass(frozen=True, slots=True)
class Sequence:
    """hj_npu_sequence."""

    token: int
    gate: int
    tokens: int
    state: int


@dataclass(frozen=True, slots=True)
class Global:
    """GM: arrays by the names of tensors.def, the table of sequences and the constants."""

    tensors: Mapping[str, Array]
    sequences: tuple[Sequence, ...]
    constants: Array
    group: int  # value heads of a key head
    chunk: int
    key_dim: int


def global_of(inputs: Inputs, chunk: int, constants: bytes, workspace_slot_bytes: int) -> Global:
    """What the host does before a launch: the table of sequences, head-major gates, outputs."""
    batch, tokens, key_heads, key_dim = inputs.query.shape
    value_heads, value_dim = inputs.value.shape[2:]
    states = inputs.state_in.shape[1]
    bounds = inputs.bounds if inputs.bounds is not None else np.tile(np.array([0, tokens], np.int32), (batch, 1))
    if bounds.shape != (batch, states + 1):
        raise ValueError(f"bounds: expected the shape {(batch, states + 1)}, got {bounds.shape}")
    sequences, gate = [], 0
    for row in range(batch):
        for n in range(states):
            start, end = int(bounds[row, n]), int(bounds[row, n + 1])
            sequences.append(Sequence(row * tokens + start, gate, end - start, row * states + n))
            gate += -(-(end - start) // chunk) * chunk
    flat = batch * tokens
    state_in = _contiguous(inputs.state_in, np.float32).reshape(batch * states, value_heads, key_dim, value_dim)
    empty = np.array([sequence.tokens == 0 for sequence in sequences])
    erase, beta = (inputs.beta[..., 0], inputs.beta[..., 1]) if inputs.beta.ndim == 4 else (None, inputs.beta)
    tensors = {
        "query": _contiguous(inputs.query, np.float16).reshape(flat, key_heads, key_dim),
        "key": _contiguous(inputs.key, np.float16).reshape(flat, key_heads, key_dim),
        "value": _contiguous(inputs.value, np.float16).reshape(flat, value_heads, value_dim),
        "state_in": state_in,
        "output": np.zeros((flat, value_heads, value_dim), inputs.output_dtype),
        "state_out": np.where(empty[:, None, None, None], state_in, np.float32(np.nan)),
        "workspace": np.full((value_heads, gate // chunk, workspace_slot_bytes), NEVER_WRITTEN, np.uint8),
    }
    gates = {"beta": beta, "erase": erase}
    if inputs.log_decay is not None and inputs.log_decay.ndim == 4:
        tensors["log_decay"] = _contiguous(inputs.log_decay, np.float32).reshape(flat, value_heads, key_dim)
    else:
        gates["log_decay"] = inputs.log_decay
    for name, array in gates.items():
        if array is not None:
            tensors[name] = _head_major(_contiguous(array, np.float32).reshape(flat, value_heads), sequences, gate)
    data = np.frombuffer(constants, np.uint8)
    return Global(tensors, tuple(sequences), data, value_heads // key_heads, chunk, key_dim)


def _contiguous(array: Array, dtype: Any) -> Array:
    if array.dtype != dtype:
        raise TypeError(f"inputs: expected {np.dtype(dtype)}, got {array.dtype}")
    return np.ascontiguousarray(array)


def _head_major(array: Array, sequences: list[Sequence], gates: int) -> Array:
    """[Hv, gates]: each sequence starts at a multiple of the chunk, zeros behind its end."""
    found = np.zeros((array.shape[1], gates), np.float32)
    for sequence in sequences:
        rows = array[sequence.token : sequence.token + sequence.tokens]
        found[:, sequence.gate : sequence.gate + sequence.tokens] = rows.T
    return found
