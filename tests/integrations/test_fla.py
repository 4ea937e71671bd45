"""fla's four operators by hajax: each argument does what fla says of it, against a float64 recurrence, or is refused by name."""

import inspect
import math
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [pytest.mark.torch, pytest.mark.native]

from torch_recurrence import recurrence  # noqa: E402 (needs torch)

from hajax.integrations import fla  # noqa: E402 (needs torch)

GDN = (fla.chunk_gated_delta_rule, fla.fused_recurrent_gated_delta_rule)
KDA = (fla.chunk_kda, fla.fused_recurrent_kda)
ALL = (*GDN, *KDA)
B, T, H, HV, K, V = 2, 37, 2, 4, 16, 24


def tensors(function, *, batch=B, key_dim=K, value_dim=V, dtype=torch.float32, seed=0):
    draw = torch.Generator().manual_seed(seed)
    gates = (batch, T, HV)
    made = {
        "q": torch.randn(batch, T, H, key_dim, generator=draw),
        "k": torch.randn(batch, T, H, key_dim, generator=draw),
        "v": torch.randn(*gates, value_dim, generator=draw),
        "g": -torch.rand((*gates, key_dim) if function in KDA else gates, generator=draw),
        "beta": torch.rand(gates, generator=draw),
    }
    return {name: x.to(dtype) if name in "qkv" else x for name, x in made.items()}


def state_of(rows, key_dim=K, value_dim=V):
    return torch.randn(rows, HV, key_dim, value_dim, generator=torch.Generator().manual_seed(9))


def wanted(x, *, state=None, ends=None, scale=None, eps=1e-6):
    rows, key_dim, value_dim = x["q"].shape[0], x["q"].shape[-1], x["v"].shape[-1]
    ends = ends or [[0, T]] * rows
    count = sum(len(one) - 1 for one in ends)
    state = torch.zeros(count, HV, key_dim, value_dim) if state is None else state
    scale = key_dim**-0.5 if scale is None else scale
    return recurrence(x["q"], x["k"], x["v"], x["g"], x["beta"], state, ends, scale=scale, l2norm_eps=eps)


def close(found, expected, bound=1e-5):
    assert found.shape == expected.shape
    assert (found.double() - expected.double()).norm() <= bound * expected.double().norm()


def run(function, x, **options):
    return function(**x, **{"use_qk_l2norm_in_kernel": True, **options})


@pytest.mark.parametrize("function", ALL)
def test_plain_call(function):
    x = tensors(function)
    output, final = run(function, x)
    assert final is None
    close(output, wanted(x)[0])


@pytest.mark.parametrize("function", ALL)
def test_without_l2norm_and_with_a_scale_of_its_own(function):
    x = tensors(function)
    x |= {name: x[name] / 4 for name in "qk"}
    output, final = run(function, x, use_qk_l2norm_in_kernel=False, scale=0.5, output_final_state=True)
    expected = wanted(x, scale=0.5, eps=None)
    close(output, expected[0])
    close(final, expected[1])


@pytest.mark.parametrize("v_first", [False, True])
@pytest.mark.parametrize("function", ALL)
def test_states_in_either_layout(function, v_first):
    x, state = tensors(function), state_of(B)
    given = state.mT.contiguous() if v_first else state
    kept = given.clone()
    output, final = run(function, x, initial_state=given, output_final_state=True, state_v_first=v_first)
    expected, expected_final = wanted(x, state=state)
    close(output, expected)
    close(final, expected_final.mT if v_first else expected_final)
    assert final.dtype == torch.float32
    assert torch.equal(given, kept), "the initial state was changed"


@pytest.mark.parametrize("function", ALL)
def test_the_old_name_of_state_v_first(function):
    x, state = tensors(function), state_of(B)
    with pytest.warns(DeprecationWarning, match="state_v_first"):
        output, _ = run(function, x, initial_state=state.mT, transpose_state_layout=True)
    close(output, wanted(x, state=state)[0])
    with pytest.raises(ValueError, match="transpose_state_layout"):
        run(function, x, state_v_first=True, transpose_state_layout=True)


@pytest.mark.parametrize("function", ALL)
def test_packed_sequences_keep_apart(function):
    x, ends = tensors(function, batch=1), [0, 5, 5, 6, 37]
    state = state_of(4)
    output, final = run(function, x, initial_state=state, output_final_state=True, cu_seqlens=torch.tensor(ends))
    expected, expected_final = wanted(x, state=state, ends=[ends])
    close(output, expected)
    close(final, expected_final)


@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("function", ALL)
def test_raw_beta(function, negative):
    x = tensors(function)
    raw = {**x, "beta": torch.logit(x["beta"])}
    output, _ = run(function, raw, use_beta_sigmoid_in_kernel=True, allow_neg_eigval=negative)
    close(output, wanted({**x, "beta": x["beta"] * (2 if negative else 1)})[0], 1e-4)


@pytest.mark.parametrize("function", GDN)
def test_raw_gate(function):
    x, a_log, bias = tensors(function), torch.tensor([0.1, -1, 0.5, 1]), torch.tensor([0.0, 1, -1, 2])
    for dt_bias in (None, bias):
        output, _ = run(function, x, use_gate_in_kernel=True, A_log=a_log, dt_bias=dt_bias)
        raw = x["g"].double() + (0 if dt_bias is None else dt_bias)
        close(output, wanted({**x, "g": -a_log.double().exp() * torch.log1p(raw.exp())})[0])


@pytest.mark.parametrize("lower_bound", [None, -5.0])
@pytest.mark.parametrize("function", KDA)
def test_raw_gate_by_channel(function, lower_bound):
    x, a_log, bias = tensors(function), torch.tensor([0.1, -1, 0.5, 1]), torch.linspace(-1, 1, HV * K)
    for dt_bias in (None, bias):
        output, _ = run(function, x, use_gate_in_kernel=True, A_log=a_log, dt_bias=dt_bias, lower_bound=lower_bound)
        raw = x["g"].double() + (0 if dt_bias is None else dt_bias.view(HV, K))
        strength = a_log.double().exp()[:, None]
        gate = -strength * torch.log1p(raw.exp()) if lower_bound is None else lower_bound * torch.sigmoid(strength * raw)
        close(output, wanted({**x, "g": gate})[0])
    if lower_bound is not None:  # and without A_log
        output, _ = run(function, x, use_gate_in_kernel=True, lower_bound=lower_bound)
        close(output, wanted({**x, "g": lower_bound * torch.sigmoid(x["g"].double())})[0])


def test_safe_gate_bounds_what_it_needs_bounded():
    x = tensors(fla.chunk_kda)
    plain, _ = run(fla.chunk_kda, x)
    safe, _ = run(fla.chunk_kda, x, safe_gate=True)
    assert torch.equal(plain, safe)
    for bound in (None, -6.0, 0.0):
        with pytest.raises(ValueError, match="lower_bound"):
            run(fla.chunk_kda, x, safe_gate=True, use_gate_in_kernel=True, A_log=torch.zeros(HV), lower_bound=bound)


def test_recurrent_decays_by_channel_together_or_none():
    x = tensors(fla.fused_recurrent_gated_delta_rule)
    gk = -torch.rand(B, T, HV, K)
    both, _ = run(fla.fused_recurrent_gated_delta_rule, x, gk=gk)
    close(both, wanted({**x, "g": x["g"][..., None] + gk})[0])
    alone, _ = run(fla.fused_recurrent_gated_delta_rule, {**x, "g": None}, gk=gk)
    close(alone, wanted({**x, "g": gk})[0])
    none, _ = run(fla.fused_recurrent_gated_delta_rule, {**x, "g": None, "beta": None})
    close(none, wanted({**x, "g": None, "beta": torch.ones(B, T, HV)})[0], 1e-4)


@pytest.mark.parametrize(("key_dim", "value_dim"), [(12, 20), (16, 260), (7, 8)])
@pytest.mark.parametrize("function", ALL)
def test_head_dims_that_the_kernels_do_not_have(function, key_dim, value_dim):
    x, state = tensors(function, key_dim=key_dim, value_dim=value_dim), state_of(B, key_dim, value_dim)
    output, final = run(function, x, initial_state=state, output_final_state=True)
    expected, expected_final = wanted(x, state=state)
    close(output, expected)
    close(final, expected_final)


@pytest.mark.parametrize("function", ALL)
def test_half_precision(function):
    x = tensors(function, dtype=torch.bfloat16)
    output, final = run(function, x, output_final_state=True)
    expected, expected_final = wanted(x)
    assert output.dtype == torch.bfloat16
    close(output, expected, 2.0**-8)
    close(final, expected_final)


@pytest.mark.parametrize("function", ALL)
def test_gradients(function):
    x = {name: y.requires_grad_() for name, y in tensors(function).items()}
    state = state_of(B).requires_grad_()
    output, final = run(function, x, initial_state=state, output_final_state=True)
    found = torch.autograd.grad(output.sin().sum() + final.sum(), [*x.values(), state])
    expected, expected_final = wanted(x, state=state)
    exact = torch.autograd.grad(expected.sin().sum() + expected_final.sum(), [*x.values(), state])
    for one, other in zip(found, exact, strict=True):
        close(one, other, 1e-4)


@pytest.mark.parametrize("function", ALL)
def test_lengths_of_a_chunk_and_beside(function):
    for tokens in (1, 15, 16, 17):
        x = {name: y[:, :tokens] for name, y in tensors(function).items()}
        output, _ = run(function, x)
        close(output, wanted(x, ends=[[0, tokens]] * B)[0])


SIZES = {fla.chunk_gated_delta_rule: (16, 32, 64), fla.chunk_kda: (32, 64)}


@pytest.mark.parametrize("function", SIZES)
def test_chunk_size_is_checked_and_changes_nothing(function):
    x = tensors(function)
    plain, _ = run(function, x)
    for size in SIZES[function]:
        assert torch.equal(run(function, x, chunk_size=size)[0], plain)
    with pytest.raises(ValueError, match="chunk_size"):
        run(function, x, chunk_size=128)


REFUSED = [
    *[(f, {"head_first": False}, DeprecationWarning, "head_first") for f in ALL],
    *[(f, {"no_such": 1}, TypeError, "no_such") for f in ALL],
    *[(f, {"allow_neg_eigval": True}, ValueError, "allow_neg_eigval") for f in ALL],
    *[(f, {"use_gate_in_kernel": True}, ValueError, "A_log") for f in ALL],
    *[(f, {"cu_seqlens": torch.tensor([0, T])}, ValueError, "q: expected one row") for f in ALL],
    *[(f, {"initial_state": torch.zeros(B, HV, V, K)}, ValueError, "initial_state") for f in ALL],
    *[(f, {"cp_context": object()}, NotImplementedError, "cp_context") for f in (fla.chunk_gated_delta_rule, fla.chunk_kda)],
    (fla.chunk_kda, {"return_intermediate_states": True}, NotImplementedError, "return_intermediate_states"),
    (fla.chunk_kda, {"use_graph": True}, NotImplementedError, "use_graph"),
    (fla.chunk_kda, {"max_num_seqs": 4}, NotImplementedError, "max_num_seqs"),
    *[(f, {"initial_state": torch.zeros(3)}, ValueError, "initial_state: expected") for f in ALL],
    *[(f, {"scale": "x"}, TypeError, "scale: expected a number or None, got 'x'") for f in ALL],
    *[(f, {"scale": True}, TypeError, "scale: expected a number") for f in ALL],
    *[(f, {"lower_bound": "x"}, TypeError, "lower_bound: expected a number") for f in KDA],
    *[(f, {"use_gate_in_kernel": True, "A_log": torch.zeros(HV + 1)}, ValueError, "A_log: expected 4 elements") for f in ALL],
    (fla.fused_recurrent_gated_delta_rule, {"gv": torch.zeros(B, T, HV, V)}, NotImplementedError, "gv"),
]


@pytest.mark.parametrize(("function", "options", "error", "message"), REFUSED)
def test_what_is_refused_is_named(function, options, error, message):
    with pytest.raises(error, match=message):
        run(function, tensors(function), **options)


@pytest.mark.parametrize("function", ALL)
def test_refused_tensors_are_named(function):
    x = tensors(function)
    with pytest.raises(NotImplementedError, match="beta"):
        run(function, {**x, "beta": torch.rand(B, T, HV, V)})
    with pytest.raises(TypeError, match="q: expected one of"):
        run(function, {name: y.double() for name, y in x.items()})
    one = tensors(function, batch=1)
    with pytest.raises(ValueError, match="initial_state: expected 2 states"):
        run(function, one, cu_seqlens=torch.tensor([0, 3, T]), initial_state=state_of(1))


WRONG = {
    "numpy q": ("q", lambda x: x.numpy(), TypeError, "q: expected a torch tensor, got ndarray"),
    "no q": ("q", lambda x: None, TypeError, "q: expected a torch tensor, got None"),
    "no k": ("k", lambda x: None, TypeError, "k: expected a torch tensor, got None"),
    "half q": ("q", lambda x: x.half(), TypeError, "k: expected torch.float16 as q, got torch.float32"),
    "half v": ("v", lambda x: x.half(), TypeError, "v: expected torch.float32 as q, got torch.float16"),
    "integer g": ("g", lambda x: x.int(), TypeError, "g: expected a floating-point tensor, got torch.int32"),
    "k elsewhere": ("k", lambda x: x.to("meta"), ValueError, "k: expected a tensor on cpu as q, got one on meta"),
    "beta elsewhere": ("beta", lambda x: x.to("meta"), ValueError, "beta: expected a tensor on cpu as q, got one on meta"),
    "flat q": ("q", lambda x: x[0], ValueError, r"q: expected \[B, T, H, K\], got \[37, 2, 16\]"),
    "short k": ("k", lambda x: x[:, 1:], ValueError, r"k: expected .* = \[2, 37, 2, 16\] as q, got \[2, 36, 2, 16\]"),
    "short v": ("v", lambda x: x[:, 1:], ValueError, r"v: expected .*\[2, 37, HV, V\] as q, got \[2, 36, 4, 24\]"),
    "heads of v": ("v", lambda x: x[:, :, 1:], ValueError, "v: expected HV to be a positive multiple of q's H=2, got HV=3"),
    "short g": ("g", lambda x: x[:, 1:], ValueError, r"g: expected \[B, T, HV.*\] = .*, got \[2, 36, 4"),
    "flat beta": ("beta", lambda x: x[..., 0], ValueError, r"beta: expected .* = \[2, 37, 4\], got \[2, 37\]"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("function", ALL)
def test_a_tensor_that_does_not_fit_the_others_is_named(function, wrong):
    name, change, error, message = WRONG[wrong]
    x = tensors(function)
    with pytest.raises(error, match="^" + message):
        run(function, {**x, name: change(x[name])})


@pytest.mark.parametrize("function", ALL)
def test_a_gate_that_is_needed_is_named(function):
    options = {"use_gate_in_kernel": True, "A_log": torch.zeros(HV)}
    with pytest.raises(TypeError, match="g: expected a torch tensor, got None"):
        run(function, {**tensors(function), "g": None}, **options)


CUTS = {
    "short": (torch.tensor([0, 10, T - 1]), ValueError, rf"expected ascending integers from 0 to T={T}, got \[0, 10, 36\]"),
    "long": (torch.tensor([0, 10, T + 1]), ValueError, "expected ascending"),
    "late": (torch.tensor([1, 10, T]), ValueError, "expected ascending"),
    "descending": (torch.tensor([0, 20, 10, T]), ValueError, "expected ascending"),
    "floats": (torch.tensor([0.0, 10.0, T]), TypeError, "expected integers, got torch.float32"),
    "list": ([0, 10, T], TypeError, "expected a torch tensor, got list"),
    "elsewhere": (torch.tensor([0, T], device="meta"), ValueError, "expected a tensor on cpu"),
}


@pytest.mark.parametrize("wrong", CUTS)
@pytest.mark.parametrize("function", ALL)
def test_cu_seqlens_that_do_not_cut_the_tokens_are_refused(function, wrong):
    cuts, error, message = CUTS[wrong]
    with pytest.raises(error, match=f"^cu_seqlens: {message}"):
        run(function, tensors(function, batch=1), cu_seqlens=cuts)


@pytest.mark.parametrize("function", ALL)
def test_a_half_state_is_converted(function):
    x, state = tensors(function), state_of(B).half()
    output, final = run(function, x, initial_state=state, output_final_state=True)
    assert torch.equal(output, run(function, x, initial_state=state.float())[0])
    assert final.dtype == torch.float32


@pytest.mark.parametrize("function", KDA)
def test_lower_bound_means_nothing_without_the_gate(function):
    x = tensors(function)
    assert torch.equal(run(function, x, lower_bound=-5.0)[0], run(function, x)[0])


@pytest.mark.parametrize("what", ["hajax.integrations.fla", "hajax.npu.torch_ops", "patch_transformers"])
def test_without_torch_the_import_says_so(what):
    load = "integrations.patch_transformers()" if what == "patch_transformers" else f"import {what}"
    script = f"import sys; sys.modules['torch'] = None\nfrom hajax import integrations\n{load}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert f"ImportError: {what} needs torch, which is not installed: pip install torch" in done.stderr.splitlines()[-1]


ARGUMENTS = {  # of fla-core 0.6.0, in order
    fla.chunk_gated_delta_rule: "q k v g beta scale initial_state output_final_state use_qk_l2norm_in_kernel "
    "use_beta_sigmoid_in_kernel allow_neg_eigval state_v_first cu_seqlens cu_seqlens_cpu chunk_indices cp_context kwargs",
    fla.fused_recurrent_gated_delta_rule: "q k v g gk gv beta scale initial_state output_final_state use_qk_l2norm_in_kernel "
    "use_gate_in_kernel A_log dt_bias use_beta_sigmoid_in_kernel allow_neg_eigval state_v_first cu_seqlens kwargs",
    fla.chunk_kda: "q k v g beta scale initial_state output_final_state use_qk_l2norm_in_kernel use_gate_in_kernel "
    "use_beta_sigmoid_in_kernel allow_neg_eigval safe_gate lower_bound disable_recompute return_intermediate_states "
    "state_v_first cu_seqlens cu_seqlens_cpu cp_context use_graph max_num_seqs kwargs",
    fla.fused_recurrent_kda: "q k v g beta A_log dt_bias scale initial_state output_final_state use_qk_l2norm_in_kernel "
    "use_gate_in_kernel use_beta_sigmoid_in_kernel allow_neg_eigval lower_bound state_v_first cu_seqlens kwargs",
}  # fmt: skip


@pytest.mark.parametrize("function", ALL)
def test_signatures_are_those_of_fla(function):
    assert list(inspect.signature(function).parameters) == ARGUMENTS[function].split()


@pytest.mark.parametrize("kind", ["gated_delta_rule", "kda"])
def test_equals_the_naive_functions_of_fla(kind):
    try:
        naive = __import__(f"fla.ops.{kind}.naive", fromlist=["*"])
    except Exception as error:  # without triton or a driver its import fails in several ways
        pytest.skip(f"fla does not import here: {type(error).__name__}")
    x = tensors(fla.chunk_kda if kind == "kda" else fla.chunk_gated_delta_rule)
    x |= {name: torch.nn.functional.normalize(x[name], dim=-1).repeat_interleave(HV // H, 2) for name in "qk"}
    theirs, final = getattr(naive, f"naive_recurrent_{kind}")(**x, output_final_state=True)
    for function in KDA if kind == "kda" else GDN:
        output, ours = run(function, x, use_qk_l2norm_in_kernel=False, output_final_state=True)
        close(output, theirs)
        close(ours, final)
    assert math.isfinite(float(final.sum()))
