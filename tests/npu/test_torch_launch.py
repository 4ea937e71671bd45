"""hajax.npu.ascend on CPU tensors and the emulated chip: the bits of `hajax_sim_execute`, states where they lie, refusals."""

import dataclasses
import gc

import numpy as np
import pytest
from problem import kernel_arrays, plan_of

from hajax import conformance
from hajax.backends import ascend as native
from hajax.backends import npu as emulated
from hajax.plans import to_bytes
from hajax.targets import npu

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = pytest.mark.torch

CHIP = npu.load("ascend310p1")
NAMES = ("query", "key", "value", "log_decay", "beta", "state_in", "bounds")


@pytest.fixture
def device():
    from emulated_device import EmulatedDevice

    from hajax.npu import ascend

    with EmulatedDevice() as opened:
        yield opened
        ascend.forget()
        gc.collect()
        assert opened.memory()[0] == opened.memory()[1]  # nothing is left on the chip


def arrays_of(case):
    return kernel_arrays(case, conformance.inputs(case))


def tensors_of(case, arrays):
    state = arrays["state_in"].reshape(-1, *arrays["state_in"].shape[2:])
    return [torch.from_numpy(np.array(x)) for x in ({**arrays, "state_in": state}[name] for name in NAMES)]


def launch(device, case, tensors, **options):
    from hajax.npu import ascend

    settings = {"mechanism": case.mechanism.name, "scale": case.key_dim**-0.5, "l2norm_eps": -1.0, "output_dtype": "float16"}
    return ascend.launch(*tensors, **settings | options, device=device)


def expected(case, arrays):
    """What the emulator computes of arrays that need no preparation."""
    ready = dict(arrays, log_decay=None) if case.mechanism.decay == "none" else arrays
    output, state, _ = emulated.execute(to_bytes(plan_of(case, CHIP)), ready, scale=case.key_dim**-0.5)
    return output, state.reshape(-1, *state.shape[2:])


CASES = [
    "T=64 B=2 Hk=1 Hv=2 Dk=32 Dv=32 dtype=float16",
    "T=150 B=2 Hk=2 Hv=4 Dk=16 Dv=32 dtype=float16 decay=infinite",
    "T=150 B=3 Hk=1 Hv=2 Dk=32 Dv=16 dtype=float16 decay=mixed lengths=150,0,70",
    "T=128 B=2 Hk=2 Hv=2 Dk=32 Dv=32 dtype=float16 decay=infinite op=kda",
    "T=90 B=2 Hk=1 Hv=2 Dk=16 Dv=16 dtype=float16 lengths=1,90 op=kda",
    "T=140 Hk=1 Hv=2 Dk=32 Dv=32 dtype=float16 cu=0,5,5,100,140",
    "T=140 Hk=1 Hv=2 Dk=32 Dv=32 dtype=float16 cu=0,64,65,140 op=kda",
    "T=1 B=3 Hk=2 Hv=4 Dk=64 Dv=64 dtype=float16",
    "T=100 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16 op=gdn2",
    "T=70 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16 op=lin",
]


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize("into", ["in_place", "state_out"])
def test_a_launch_gives_the_bits_of_an_execution(device, text, into):
    case = conformance.parse(text)
    arrays = arrays_of(case)
    tensors = tensors_of(case, arrays)
    final = tensors[5] if into == "in_place" else torch.full_like(tensors[5], float("nan"))
    before = tensors[5].clone()
    output = launch(device, case, tensors, **({} if into == "in_place" else {"state_out": final}))
    wanted_output, wanted_state = expected(case, arrays)
    np.testing.assert_array_equal(output.numpy(), wanted_output)
    np.testing.assert_array_equal(final.numpy(), wanted_state)
    assert (into == "in_place") or torch.equal(tensors[5], before)


@pytest.mark.parametrize("op", ["gdn", "kda", "gdn2", "lin"])
def test_the_operators_of_torch_come_here(device, monkeypatch, op):
    """What PrivateUse1 is registered with, called as the dispatcher does."""
    from hajax.npu import ascend, torch_ops

    monkeypatch.setattr(ascend, "_npu_device", lambda number: device)
    case = conformance.parse(f"T=70 B=2 Hk=1 Hv=2 Dk=16 Dv=16 dtype=float16 lengths=70,20 op={op}")
    arrays = arrays_of(case)
    tensors = tensors_of(case, arrays)
    before, options = tensors[5].clone(), (case.mechanism.name, case.key_dim**-0.5, -1.0, "float16")
    wanted_output, wanted_state = expected(case, arrays)
    output, state = torch_ops._delta_rule_npu(*tensors, *options)
    np.testing.assert_array_equal(output.numpy(), wanted_output)
    np.testing.assert_array_equal(state.numpy(), wanted_state)
    assert torch.equal(tensors[5], before)
    np.testing.assert_array_equal(torch_ops._delta_rule_in_place_npu(*tensors, *options).numpy(), wanted_output)
    np.testing.assert_array_equal(tensors[5].numpy(), wanted_state)


def test_a_split_sequence_with_its_state_in_place(device):
    case = conformance.parse("T=192 Hk=1 Hv=2 Dk=32 Dv=32 dtype=float16")
    tensors = tensors_of(case, arrays_of(case))
    whole_state = tensors[5].clone()
    whole = launch(device, case, [*tensors[:5], whole_state, tensors[6]])
    parts = []
    for first, last in ((0, 64), (64, 192)):
        bounds = torch.tensor([[0, last - first]], dtype=torch.int32)
        parts.append(launch(device, case, [*(x[:, first:last] for x in tensors[:5]), tensors[5], bounds]))
    assert torch.equal(torch.cat(parts, 1), whole)
    assert torch.equal(tensors[5], whole_state)


@pytest.mark.parametrize("dims", [(24, 40), (8, 16), (16, 8)])
@pytest.mark.parametrize("op", ["gdn", "kda"])
def test_head_dims_that_are_no_whole_fractals_are_padded(device, dims, op):
    case = conformance.parse(f"T=70 B=2 Hk=1 Hv=2 Dk={dims[0]} Dv={dims[1]} dtype=float16 op={op}")
    arrays = arrays_of(case)
    tensors = tensors_of(case, arrays)
    output = launch(device, case, tensors)
    whole = [-(-size // 16) * 16 for size in dims]
    wide = {name: pad(arrays[name], -1, whole[0]) for name in ("query", "key")} | {"value": pad(arrays["value"], -1, whole[1])}
    wide["state_in"] = pad(pad(arrays["state_in"], -2, whole[0]), -1, whole[1])
    if op == "kda":
        wide["log_decay"] = pad(arrays["log_decay"], -1, whole[0])
    padded = dataclasses.replace(case, key_dim=whole[0], value_dim=whole[1])
    plan = to_bytes(plan_of(padded, CHIP))
    wanted, state, _ = emulated.execute(plan, arrays | wide, scale=case.key_dim**-0.5)
    np.testing.assert_array_equal(output.numpy(), wanted[..., : dims[1]])
    np.testing.assert_array_equal(tensors[5].numpy(), state.reshape(-1, *state.shape[2:])[:, :, : dims[0], : dims[1]])


def pad(array, axis, size):
    pads = [(0, 0)] * array.ndim
    pads[axis] = (0, size - array.shape[axis])
    return np.pad(array, pads)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_are_normalised_and_cast_as_implementation_sim_does(device, dtype):
    import jax.numpy as jnp

    import hajax

    case = conformance.parse(f"T=70 B=2 Hk=1 Hv=2 Dk=32 Dv=32 dtype={dtype} l2norm=1")
    drawn = conformance.inputs(case)
    tensors = tensors_of(case, kernel_arrays(case, drawn))
    output = launch(device, case, tensors, l2norm_eps=1e-6, output_dtype=dtype)
    arrays = {name: jnp.asarray(x) for name, x in drawn.items()}
    options = {"l2norm_eps": 1e-6, "implementation": "sim", "target": "ascend310p1"}
    names = ("query", "key", "value", "log_decay", "beta")
    wanted, state = hajax.gated_delta_rule(*(arrays[n] for n in names), initial_state=arrays["initial_state"], **options)
    assert output.dtype == getattr(torch, dtype)
    # A reciprocal root may differ in its last place, and a row's numbers in theirs of float16.
    np.testing.assert_allclose(output.float().numpy(), np.asarray(wanted, np.float32), rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(tensors[5].numpy(), np.asarray(state), rtol=2e-3, atol=2e-3)


def test_numbers_beyond_float16_become_the_largest_there_are(device):
    case = conformance.parse("T=16 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float32 keys=zeros")
    tensors = tensors_of(case, arrays_of(case))
    saturated = [x.clone() for x in tensors]
    tensors[2][0, 0, 0, 0], tensors[2][0, 1, 0, 0] = float("inf"), -1e30
    saturated[2][0, 0, 0, 0], saturated[2][0, 1, 0, 0] = 65504, -65504
    tensors[4].zero_(), saturated[4].zero_()
    assert torch.equal(launch(device, case, tensors), launch(device, case, saturated))


def test_a_device_is_asked_once_for_bounds_that_come_again(device):
    from hajax.npu import ascend

    case = conformance.parse("T=70 B=2 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16 lengths=70,3")
    tensors = tensors_of(case, arrays_of(case))
    launch(device, case, tensors)
    free = device.memory()[0]
    hits = ascend._ready.cache_info().hits
    launch(device, case, tensors)
    assert ascend._ready.cache_info().hits == hits + 1 and device.memory()[0] == free
    tensors[6][1, 1] = 5  # other bounds: prepared anew, for the plan that is there
    plans = ascend._placed.cache_info().misses
    launch(device, case, tensors)
    assert ascend._placed.cache_info().misses == plans and device.memory()[0] < free


def test_a_launch_neither_reads_back_nor_copies_between_host_and_device(device):
    """What a graph can record: of torch's operators only such as run on the device, once a call is prepared."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recorder(TorchDispatchMode):
        names = ()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names = (*self.names, func.name().removeprefix("aten::").split(".")[0])
            return func(*args, **(kwargs or {}))

    for text in CASES:
        case = conformance.parse(text)
        tensors = tensors_of(case, arrays_of(case))
        launch(device, case, tensors, l2norm_eps=1e-6)
        with Recorder() as recorder:
            launch(device, case, tensors, l2norm_eps=1e-6)
        on_device = {
            "cat", "copy_", "clamp", "constant_pad_nd", "index_select", "clone", "mul", "sum", "add", "rsqrt", "_to_copy",
            "zeros_like", "zero_", "fill_", "fill",
        }  # fmt: skip
        views = {
            "view", "_unsafe_view", "t", "slice", "select", "detach", "new_empty", "alias", "expand", "empty", "transpose",
            "empty_like", "permute",
        }  # fmt: skip
        assert set(recorder.names) <= on_device | views, text


def test_what_a_graph_refers_to_is_kept(device):
    from hajax.npu import ascend

    case = conformance.parse("T=16 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16")
    device.recording = True
    launch(device, case, tensors_of(case, arrays_of(case)))
    ascend._ready.cache_clear()
    ascend._placed.cache_clear()
    gc.collect()
    assert device.memory()[0] < device.memory()[1]
    ascend.forget()


def test_nothing_to_do(device):
    case = conformance.parse("T=16 B=2 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16 lengths=0,0")
    tensors = tensors_of(case, arrays_of(case))
    before = tensors[5].clone()
    assert not launch(device, case, tensors).any() and torch.equal(tensors[5], before)
    empty = [x[:, :0] for x in tensors[:5]]
    final = torch.full_like(before, 7.0)
    assert launch(device, case, [*empty, *tensors[5:]], state_out=final).shape == (2, 0, 1, 16)
    assert torch.equal(final, before) and device.launches == 1


def test_what_the_chip_has_not_is_refused_by_name(device):
    case = conformance.parse("T=16 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16")
    tensors = tensors_of(case, arrays_of(case))
    half = [*(x.bfloat16() for x in tensors[:3]), *tensors[3:]]
    with pytest.raises(NotImplementedError, match="query: expected float16 or float32, as the 310P has no bfloat16"):
        launch(device, case, half)
    with pytest.raises(NotImplementedError, match="output_dtype: expected float16 or float32"):
        launch(device, case, tensors, output_dtype="bfloat16")
    with pytest.raises(ValueError, match=r"state_out: expected .*, got"):
        launch(device, case, tensors, state_out=tensors[5].half())
    with pytest.raises(ValueError, match=r"bounds\[0\]\[1\]: expected 0..16"):
        launch(device, case, [*tensors[:6], torch.tensor([[0, 17]], dtype=torch.int32)])


@pytest.mark.parametrize(("fault", "kind"), [
    ("malloc:1", MemoryError), ("launch:1", native.LaunchError), ("execute:1", native.StreamError),
    ("device_lost:1", native.DeviceLostError),
])  # fmt: skip
def test_a_fault_leaves_the_state_and_the_next_launch_works(fault, kind):
    from emulated_device import EmulatedDevice, injected

    from hajax.npu import ascend

    case = conformance.parse("T=70 B=2 Hk=1 Hv=1 Dk=16 Dv=16 dtype=float16 lengths=70,3")
    arrays = arrays_of(case)
    tensors = tensors_of(case, arrays)
    device, before = EmulatedDevice(), tensors[5].clone()
    with injected(fault):
        with pytest.raises(kind):
            launch(device, case, tensors)
        assert torch.equal(tensors[5], before)
        if kind is native.DeviceLostError:
            device.reopen()
        np.testing.assert_array_equal(launch(device, case, tensors).numpy(), expected(case, arrays)[0])
    ascend.forget()
    gc.collect()
    assert device.memory()[0] == device.memory()[1]
    device.close()
