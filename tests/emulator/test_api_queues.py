"""Queues, buffers, event ids and cores through the Ascend C headers: used rightly, and wrongly."""

import numpy as np
import pytest
from api_kernels import output, run

from hajax.backends import sim

TYPES = [(np.float16, "half"), (np.float32, "float")]

MISUSES = [
    (1, "queue_state", "AllocTensor of a queue at VECIN: expected TPipe::InitBuffer before, got none"),
    (2, "limit", r"TPipe::InitBuffer at VECIN: 3 x 102400 bytes: expected .* 253952 bytes that are left of UB, got 307200"),
    (3, "limit", "EnQue: tensors in the queue, which its depth limits: expected 0 to 1, got 2"),
    (4, "queue_state", "DeQue of a queue at VECIN: expected an EnQue before, got an empty queue"),
    (5, "queue_state", "AllocTensor of the queue at VECIN: expected a free buffer among 1, got none: 1 allocated"),
    (6, "queue_state", "EnQue of a queue at VECIN: expected a tensor that this queue gave, got another"),
    (7, "queue_state", "EnQue of the queue at VECIN: expected an allocated or dequeued tensor, got one that is enqueued"),
    (8, "queue_state", "FreeTensor of the queue at VECIN: expected a tensor that DeQue gave, got one that is enqueued"),
    (9, "leaked_tensor", "the queue at VECIN: expected every tensor back, got the one at byte 0 .* still dequeued"),
    (10, "queue_state", "FreeTensor of the queue at VECIN: expected a tensor that is not free, got one that is free"),
    (11, "freed_memory", r"V instruction \d+ \(vadds\)"),
    (12, "queue_state", "TBuf at VECCALC: expected TPipe::InitBuffer before, got none"),
    (13, "queue_state", "TPipe::AllocEventID: expected a free event id of V_S, got none: all 8"),
    (14, "queue_state", "TPipe::ReleaseEventID: event id 2 of V_S: expected one that AllocEventID gave"),
    (15, "limit", "SetFlag: event id: expected 0 to 7, got 8"),
    (16, "leaked_tensor", "TPipe::Destroy: the queue at VECOUT: .* still enqueued"),
    (17, "limit", "TBuf::Get: bytes: expected a multiple of 32, got 130"),
    (18, "launch", r"assertion failed: result.GetSize\(\) == 65"),
    (19, "limit", "LocalTensor: addr: expected a multiple of 32, got 16"),
]  # fmt: skip


def test_right_use_of_queues():
    x = np.arange(64, dtype=np.float16)
    assert np.array_equal(run("misuse", "misuse", x, 0).arrays[0], x + 1)
    assert np.array_equal(run("misuse", "phases", x).arrays[0], x + 3)


@pytest.mark.parametrize(("which", "check", "text"), MISUSES)
def test_misuse(which, check, text):
    with pytest.raises(sim.SimFault, match=text) as caught:
        run("misuse", "misuse", np.arange(64, dtype=np.float16), which)
    assert caught.value.check == check
    assert "misuse.cpp:" in str(caught.value)


def test_the_last_two_ids_belong_to_the_system_on_310b():
    x = np.arange(64, dtype=np.float16)
    assert np.array_equal(run("misuse", "misuse", x, 0, target="ascend310b1").arrays[0], x + 1)
    with pytest.raises(sim.SimFault, match="SetFlag: event id: expected 0 to 5, got 6") as caught:
        run("misuse", "misuse", x, 20, target="ascend310b1")
    assert caught.value.check == "limit"


# --- cores


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_cores_wait_for_each_other(cores):
    rounds = 3
    seen = run("cores", "ring", output(cores * 8, np.int32), output((rounds, cores, 8), np.int32), np.zeros(cores * 8, np.int32),
               rounds, 0, blocks=cores)  # fmt: skip
    neighbours = (np.arange(cores) + 1) % cores + 1
    want = np.arange(1, rounds + 1)[:, None] * neighbours
    assert np.array_equal(seen.arrays[1], np.repeat(want[:, :, None], 8, axis=2))
    assert (seen.arrays[2].reshape(cores, 8)[:, 0] == 2 * rounds).all()  # each counted what it passed


@pytest.mark.parametrize(("workspace", "used", "check", "text"), [
    (np.ones(16, np.int32), 0, "limit", "SyncAll: gmWorkspace: expected 0 before the first SyncAll"),
    (np.zeros(16, np.int32), 1, "unsupported", "SyncAll: usedCores: expected 0 or all 2 cores"),
])  # fmt: skip
def test_workspaces_of_sync_all(workspace, used, check, text):
    with pytest.raises(sim.SimFault, match=text) as caught:
        run("cores", "ring", output(16, np.int32), output((1, 2, 8), np.int32), workspace, 1, used, blocks=2)
    assert caught.value.check == check


@pytest.mark.parametrize(("dtype", "name"), TYPES)
def test_atomic_addition(dtype, name):
    x, y = np.arange(64, dtype=dtype), np.ones(64, dtype)
    assert np.array_equal(run("cores", f"add_to_{name}", x, y, 64, blocks=8).arrays[1], 1 + 8 * x)
