"""hajax::delta_rule as a torch operator: results and gradients against a float64 recurrence and jax.grad, torch's own checks."""

import threading
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hajax
from hajax.mechanisms import MECHANISMS

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [pytest.mark.torch, pytest.mark.native]

from torch_recurrence import recurrence  # noqa: E402 (needs torch)

from hajax.npu import torch_ops  # noqa: E402 (needs torch)

ENDS = {"whole": [[0, 70], [0, 70]], "padded": [[0, 33], [3, 70]], "packed": [[2, 5, 5, 69]], "one token": [[0, 1]] * 2}
OPTIONS = (0.25, 1e-6, "float32")


def operands(mechanism, ends=None, *, dtype=torch.float32, dims=(16, 24), heads=(2, 4), seed=0):
    """The seven operands of a call."""
    ends = ends or ENDS["whole"]
    member, draw = MECHANISMS[mechanism], torch.Generator().manual_seed(seed)
    batch, tokens, (key_heads, value_heads), (key_dim, value_dim) = len(ends), 1 if ends == ENDS["one token"] else 70, heads, dims
    gates = (batch, tokens, value_heads)

    def normal(*shape):
        return torch.randn(shape, generator=draw).to(dtype)

    query, key = normal(batch, tokens, key_heads, key_dim), normal(batch, tokens, key_heads, key_dim)
    value = normal(*gates, value_dim)
    log_decay = -torch.rand((*gates, key_dim) if member.decay == "per_channel" else gates, generator=draw)
    beta = torch.rand((*gates, 2) if member.strengths == 2 else gates, generator=draw)
    state = torch.randn(batch * (len(ends[0]) - 1), value_heads, key_dim, value_dim, generator=draw)
    return query, key, value, log_decay, beta, state, torch.tensor(ends, dtype=torch.int32)


def expected(args, mechanism, ends, scale=0.25, eps=1e-6):
    member = MECHANISMS[mechanism]
    log_decay = None if member.decay == "none" else args[3]
    return recurrence(
        *args[:3], log_decay, *args[4:6], ends, scale=scale, l2norm_eps=None if eps < 0 else eps, delta=member.delta
    )  # fmt: skip


def close(found, wanted, bound=1e-5):
    assert (found.double() - wanted).norm() <= bound * wanted.norm() + 1e-12


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_equals_the_recurrence(mechanism, case):
    args = operands(mechanism, ENDS[case])
    kept = [x.clone() for x in args]
    output, state = torch_ops.delta_rule(*args, mechanism, *OPTIONS)
    wanted, wanted_state = expected(args, mechanism, ENDS[case])
    close(output, wanted)
    close(state, wanted_state)
    assert all(torch.equal(x, y) for x, y in zip(args, kept, strict=True)), "an operand was changed"
    in_place = torch_ops.delta_rule_(*args, mechanism, *OPTIONS)
    assert torch.equal(in_place, output)
    assert torch.equal(args[5], state)


@pytest.mark.parametrize(("dtype", "name", "rounding"), [
    (torch.bfloat16, "bfloat16", 2.0**-8), (torch.float16, "float16", 2.0**-11), (torch.bfloat16, "float32", 2.0**-20),
])  # fmt: skip
def test_half_precision_rounds_once_from_fp32(dtype, name, rounding):
    """Into fp32 within what its sums lose, which on matrix tiles is 3.8e-7 of the largest output: a bfloat16 kept on the way
    would lose 2e-3."""
    args = operands("gated_delta_rule", dtype=dtype)
    output, _ = torch_ops.delta_rule(*args, "gated_delta_rule", 0.25, 1e-6, name)
    assert output.dtype == torch_ops.DTYPES[name]
    wide = [x.float() if x.dtype == dtype else x for x in args]
    exact = expected(wide, "gated_delta_rule", args[6].tolist())[0]  # in fp64: fp32's kernel may be another one
    assert (output.double() - exact).abs().max() <= rounding * exact.abs().max()


def test_strided_operands_equal_their_copies():
    args = operands("kda")
    strided = [torch.stack([x, x], -1)[..., 0] if x.ndim > 2 else x for x in args]
    assert not strided[0].is_contiguous()
    wanted = torch_ops.delta_rule(*args, "kda", *OPTIONS)
    found = torch_ops.delta_rule(*strided, "kda", *OPTIONS)
    assert all(torch.equal(x, y) for x, y in zip(found, wanted, strict=True))
    assert torch.equal(torch_ops.delta_rule_(*strided, "kda", *OPTIONS), wanted[0])
    assert torch.equal(strided[5], wanted[1])


@pytest.mark.parametrize("place", ["value", "query", "log_decay"])
def test_a_state_that_shares_memory_with_another_operand_is_updated_from_what_was_there(place):
    query, key, value, log_decay, beta, state, _ = operands("kda", [[0, 16]])
    args = {"query": query, "key": key, "value": value, "log_decay": log_decay, "beta": beta}
    args = {name: x[:, :16].contiguous() for name, x in args.items()}
    args[place] = state.flatten()[: args[place].numel()].view(args[place].shape)
    tensors = (*args.values(), state, torch.tensor([[0, 16]], dtype=torch.int32))
    wanted = torch_ops.delta_rule(*[x.clone() for x in tensors], "kda", *OPTIONS)
    assert torch.equal(torch_ops.delta_rule_(*tensors, "kda", *OPTIONS), wanted[0])
    assert torch.equal(state, wanted[1])


@pytest.mark.parametrize("case", ["whole", "padded", "packed"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_gradients_equal_those_of_the_recurrence(mechanism, case):
    args = operands(mechanism, ENDS[case])
    leaves = [x.requires_grad_() for x in args[:6]]
    results = torch_ops.delta_rule(*leaves, args[6], mechanism, *OPTIONS)
    cotangents = [torch.randn(x.shape, generator=torch.Generator().manual_seed(1)) for x in results]
    found = torch.autograd.grad(results, leaves, cotangents)
    doubles = [x.detach().double().requires_grad_() for x in leaves]
    wanted = torch.autograd.grad(
        expected(doubles, mechanism, ENDS[case]), doubles, [x.double() for x in cotangents], allow_unused=True
    )
    for one, other in zip(found, wanted, strict=True):
        close(one, torch.zeros_like(one).double() if other is None else other, 2e-5)


def test_gradients_equal_those_of_jax():
    args = operands("gated_delta_rule")
    leaves = [x.requires_grad_() for x in args[:6]]
    output, state = torch_ops.delta_rule(*leaves, args[6], "gated_delta_rule", *OPTIONS)
    (output.sin().sum() + state.cos().sum()).backward()

    def loss(query, key, value, log_decay, beta, state):
        options = {"initial_state": state, "scale": 0.25, "l2norm_eps": 1e-6}
        output, final = hajax.gated_delta_rule(query, key, value, log_decay, beta, **options)
        return jnp.sin(output).sum() + jnp.cos(final).sum()

    wanted = jax.grad(loss, argnums=tuple(range(6)))(*(jnp.asarray(x.detach().numpy()) for x in leaves))
    for one, other in zip(leaves, wanted, strict=True):
        close(one.grad, torch.from_numpy(np.array(other)).double(), 2e-5)


@pytest.mark.parametrize("mechanism", ["gated_delta_rule", "kda_2"])
def test_torch_own_checks_of_an_operator(mechanism):
    args = operands(mechanism, [[0, 20], [0, 20]])
    args = [x[:, :20] if x.ndim > 2 and x.shape[1] == 70 else x for x in args]
    leaves = [x.detach().clone().requires_grad_() for x in args[:6]]
    passed = dict.fromkeys(
        ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"], "SUCCESS"
    )
    assert torch.library.opcheck(torch_ops.delta_rule, (*leaves, args[6], mechanism, *OPTIONS)) == passed
    assert torch.library.opcheck(torch_ops.delta_rule_, (*args, mechanism, *OPTIONS)) == passed


def test_compiles_without_a_graph_break():
    args = operands("gated_delta_rule")
    leaves = [x.requires_grad_() for x in args[:6]]

    def loss(*leaves):
        output, state = torch.ops.hajax.delta_rule(*leaves, args[6], "gated_delta_rule", *OPTIONS)
        return (2 * output).square().sum() + state.sum()

    wanted = torch.autograd.grad(loss(*leaves), leaves)
    found = torch.autograd.grad(torch.compile(loss, fullgraph=True, backend="aot_eager")(*leaves), leaves)
    for one, other in zip(found, wanted, strict=True):
        close(one, other.double(), 1e-6)


def test_bits_do_not_depend_on_torch_threads(monkeypatch):
    args = operands("gated_delta_rule", heads=(4, 8))
    before = torch.get_num_threads()
    try:
        runs = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            runs.append(torch_ops.delta_rule(*args, "gated_delta_rule", *OPTIONS))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(x, y) for run in runs for x, y in zip(run, runs[0], strict=True))


def test_callers_side_by_side_keep_their_scratch_apart():
    cases = {name: operands(name, seed=n) for n, name in enumerate(("gated_delta_rule", "kda", "retention"))}
    wanted = {name: torch_ops.delta_rule(*args, name, *OPTIONS)[0] for name, args in cases.items()}
    wrong = []

    def call(name):
        for _ in range(30):
            if not torch.equal(torch_ops.delta_rule(*cases[name], name, *OPTIONS)[0], wanted[name]):
                wrong.append(name)

    callers = [threading.Thread(target=call, args=(name,)) for name in cases]
    [caller.start() for caller in callers]
    [caller.join() for caller in callers]
    assert not wrong


def test_a_signature_is_planned_once(monkeypatch):
    from hajax import planner
    from hajax.backends import cpu

    args = operands("gated_delta_rule", dims=(8, 40))
    torch_ops.delta_rule(*args, "gated_delta_rule", *OPTIONS)
    monkeypatch.setattr(planner, "plan", None)
    monkeypatch.setattr(cpu, "launch_of", None)
    torch_ops.delta_rule(*args, "gated_delta_rule", *OPTIONS)


def test_nothing_to_do_keeps_the_state():
    args = operands("gated_delta_rule")
    short = [x[:, :0] if x.ndim > 2 and x.shape[1] == 70 else x for x in args]
    short[6] = torch.zeros_like(args[6])
    output, state = torch_ops.delta_rule(*short, "gated_delta_rule", *OPTIONS)
    assert output.shape == (2, 0, 4, 24)
    assert torch.equal(state, args[5])


WRONG = {
    "mechanism": (7, "delta", ValueError, "mechanism: expected one of"),
    "output_dtype": (10, "float64", ValueError, "output_dtype: expected one of"),
    "key": (1, torch.zeros(2, 70, 2, 8), ValueError, r"key: expected \[2, 70, 2, 16\], got \[2, 70, 2, 8\]"),
    "value heads": (2, torch.zeros(2, 70, 3, 24), ValueError, "value: expected Hv to be a positive multiple"),
    "log_decay": (3, torch.zeros(2, 70, 4, 16), ValueError, r"log_decay: expected \[2, 70, 4\]"),
    "beta": (4, torch.zeros(2, 70, 4, dtype=torch.float16), TypeError, "beta: expected torch.float32, got torch.float16"),
    "state": (5, torch.zeros(2, 4, 24, 16), ValueError, r"state: expected \[2, 4, 16, 24\]"),
    "bounds": (6, torch.zeros(2, 2, dtype=torch.int64), TypeError, "bounds: expected torch.int32"),
    "doubles": (0, torch.zeros(2, 70, 2, 16, dtype=torch.float64), TypeError, "query: expected one of float32"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_named(wrong):
    place, value, error, message = WRONG[wrong]
    args = [*operands("gated_delta_rule"), "gated_delta_rule", *OPTIONS]
    args[place] = value
    with pytest.raises(error, match=message):
        torch_ops.delta_rule(*args)


@pytest.mark.parametrize("place", [0, 1, 6])
def test_operands_on_different_devices_are_named(place):
    args = list(operands("gated_delta_rule"))
    args[place] = args[place].to("meta")
    for operator in (torch_ops.delta_rule, torch_ops.delta_rule_):
        with pytest.raises(ValueError, match=r"operands: expected all on one device, got query on .* bounds on"):
            operator(*args, "gated_delta_rule", *OPTIONS)


def test_bounds_out_of_the_tokens_are_refused():
    args = list(operands("gated_delta_rule"))
    args[6] = torch.tensor([[0, 71], [0, 70]], dtype=torch.int32)
    with pytest.raises(hajax.backends.LibraryError, match="bounds"):
        torch_ops.delta_rule(*args, "gated_delta_rule", *OPTIONS)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own first import of its decompositions
@pytest.mark.parametrize("operator", [torch_ops.delta_rule, torch_ops.delta_rule_], ids=str)
def test_forward_mode_and_transforms_of_torch_func_are_refused(operator):
    query, *rest = operands("gated_delta_rule")

    def call(query):
        found = operator(query, *rest, "gated_delta_rule", *OPTIONS)
        return found[0] if isinstance(found, tuple) else found

    with pytest.raises(NotImplementedError, match=r"hajax::delta_rule_?: expected a derivative in reverse mode"):
        torch.func.jvp(call, (query,), (torch.ones_like(query),))
    with (
        torch.autograd.forward_ad.dual_level(),
        pytest.raises(NotImplementedError, match="expected a derivative in reverse mode"),
    ):
        call(torch.autograd.forward_ad.make_dual(query, torch.ones_like(query)))
    with pytest.raises((NotImplementedError, RuntimeError), match=r"expected a gradient by torch\.autograd|has no gradient"):
        torch.func.grad(lambda query: call(query).sum())(query)


def test_each_sample_of_a_vmap_is_a_call():
    query, *rest = operands("gated_delta_rule")
    queries = torch.stack([query, 2 * query])

    def call(query):
        return torch_ops.delta_rule(query, *rest, "gated_delta_rule", *OPTIONS)[0]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch says that it loops
        found = torch.func.vmap(call)(queries)
    assert torch.equal(found, torch.stack([call(query), call(2 * query)]))


def test_a_state_updated_in_place_is_too_new_for_what_autograd_saved():
    args = operands("gated_delta_rule")
    output, _ = torch_ops.delta_rule(args[0].clone().requires_grad_(), *args[1:], "gated_delta_rule", *OPTIONS)
    torch_ops.delta_rule_(*args, "gated_delta_rule", *OPTIONS)
    assert args[5]._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()
    with torch.inference_mode():
        torch_ops.delta_rule_(*[x.clone() for x in args], "gated_delta_rule", *OPTIONS)


def test_the_form_in_place_refuses_a_gradient():
    args = operands("gated_delta_rule")
    args[0].requires_grad_()
    with pytest.raises(RuntimeError, match="hajax::delta_rule_ overwrites its state"):
        torch_ops.delta_rule_(*args, "gated_delta_rule", *OPTIONS)
    with torch.no_grad():
        torch_ops.delta_rule_(*args, "gated_delta_rule", *OPTIONS)
