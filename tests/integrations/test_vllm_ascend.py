"""The vllm plugin against stub modules with vllm-ascend's names and signatures: what it replaces, compares and leaves alone."""

import importlib.metadata
import importlib.util
import logging
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = [pytest.mark.torch, pytest.mark.native]

from torch_recurrence import recurrence  # noqa: E402 (needs torch)

from hajax.integrations import vllm_ascend as plugin  # noqa: E402 (needs torch)

USER = plugin.USERS[0]
H, HV, K, V, T = 2, 4, 16, 24, 37
ENDS = [0, 5, 30, 37]


def inputs(seed=0):
    draw = torch.Generator().manual_seed(seed)
    return {
        "q": torch.randn(1, T, H, K, generator=draw).half(),
        "k": torch.randn(1, T, H, K, generator=draw).half(),
        "v": torch.randn(1, T, HV, V, generator=draw).half(),
        "g": -torch.rand(1, T, HV, generator=draw),
        "beta": torch.rand(1, T, HV, generator=draw).half(),
    }


def call_of(function, x, v_first, **options):
    state = torch.randn(3, HV, K, V, generator=torch.Generator().manual_seed(4))
    return function(
        **x, initial_state=state.mT.contiguous() if v_first else state, output_final_state=True,
        cu_seqlens=torch.tensor(ENDS), head_first=False, use_qk_l2norm_in_kernel=True, **options,
    )  # fmt: skip


@pytest.fixture(params=plugin.V_FIRST)
def chip(request, monkeypatch):
    """vllm-ascend on a 310P as stubs; `calls` counts its own function's, `scale` makes that one wrong."""
    name, v_first = request.param, plugin.V_FIRST[request.param]
    made = types.SimpleNamespace(name=name, v_first=v_first, calls=0, scale=1.0, is_310p=True)

    def chunk(
        q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None, head_first=False,
        use_qk_l2norm_in_kernel=False, plan=None,
    ):  # fmt: skip
        made.calls += 1
        state = initial_state.mT if v_first else initial_state
        flat = q.ndim == 3
        q, k, v, g, beta = (x[None] if flat else x for x in (q, k, v, g, beta))
        options = {"scale": K**-0.5 if scale is None else scale, "l2norm_eps": 1e-6 if use_qk_l2norm_in_kernel else None}
        output, final = recurrence(q, k, v, g, beta, state, [cu_seqlens.tolist()], **options)
        output = (made.scale * output).to(v.dtype)
        return output[0] if flat else output, (final.mT if v_first else final).float()

    chunk.__name__ = name
    modules = {part: types.ModuleType(part) for part in (
        "vllm_ascend", "vllm_ascend.utils", "vllm_ascend._310p", "vllm_ascend._310p.ops", "vllm_ascend._310p.ops.fla",
        plugin.MODULE, USER,
    )}  # fmt: skip
    modules["vllm_ascend"].__spec__ = importlib.machinery.ModuleSpec("vllm_ascend", None)
    modules["vllm_ascend.utils"].is_310p = lambda: made.is_310p
    for part in (plugin.MODULE, USER):
        setattr(modules[part], name, chunk)
    for part, module in modules.items():
        monkeypatch.setitem(sys.modules, part, module)
    made.original, made.module, made.user = chunk, modules[plugin.MODULE], modules[USER]
    return made


def test_both_the_module_and_those_that_imported_from_it_are_served(chip):
    plugin.register()
    ours = getattr(chip.module, chip.name)
    assert ours is not chip.original
    assert getattr(chip.user, chip.name) is ours
    plugin.register()
    assert getattr(chip.module, chip.name) is ours, "replaced twice"


def test_the_first_call_compares_and_later_ones_are_ours(chip):
    plugin.register()
    ours = getattr(chip.user, chip.name)
    first = call_of(ours, inputs(), chip.v_first)
    assert chip.calls == 1
    second = call_of(ours, inputs(), chip.v_first)
    assert chip.calls == 1
    for one, other in zip(first, second, strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        assert (one.float() - other.float()).abs().max() <= 2e-3 * one.float().abs().max()


def test_tokens_without_a_batch_axis(chip):
    plugin.register()
    ours = getattr(chip.user, chip.name)
    call_of(ours, inputs(), chip.v_first)
    flat = call_of(ours, {name: x[0] for name, x in inputs().items()}, chip.v_first)
    assert chip.calls == 1
    assert torch.equal(flat[0], call_of(ours, inputs(), chip.v_first)[0][0])


def test_another_result_keeps_their_own(chip, caplog):
    plugin.register()
    ours = getattr(chip.user, chip.name)
    chip.scale = 1.1
    with caplog.at_level(logging.WARNING, "hajax.vllm_ascend"):
        for _ in range(3):
            call_of(ours, inputs(), chip.v_first)
    assert chip.calls == 3
    assert "differs" in caplog.text


def test_states_of_the_other_layout_keep_their_own(chip, caplog):
    """A version whose states lie the other way must not be served wrongly."""
    ours = plugin.replacement(chip.original, v_first=not chip.v_first)
    with caplog.at_level(logging.WARNING, "hajax.vllm_ascend"):
        call_of(ours, inputs(), chip.v_first)
        call_of(ours, inputs(), chip.v_first)
    assert chip.calls == 2
    assert "cannot serve" in caplog.text or "differs" in caplog.text


def test_calls_with_more_than_is_known_go_to_their_own(chip):
    plugin.register()
    ours = getattr(chip.user, chip.name)
    call_of(ours, inputs(), chip.v_first)
    call_of(ours, inputs(), chip.v_first, plan=object())
    assert chip.calls == 2
    call_of(ours, inputs(), chip.v_first, plan=None)
    assert chip.calls == 2


def test_another_chip_is_left_alone(chip):
    chip.is_310p = False
    plugin.register()
    assert getattr(chip.module, chip.name) is chip.original


def test_another_vllm_ascend_is_left_alone(chip, caplog, monkeypatch):
    delattr(chip.module, chip.name)
    with caplog.at_level(logging.WARNING, "hajax.vllm_ascend"):
        plugin.register()
        monkeypatch.delattr(sys.modules["vllm_ascend.utils"], "is_310p")
        plugin.register()
    assert caplog.text.count("its own kernels stay") == 2


def test_without_vllm_ascend_nothing_happens_and_nothing_is_imported():
    if importlib.util.find_spec("vllm_ascend") is not None:
        pytest.skip("vllm-ascend is installed")
    code = (
        "import sys; from hajax.integrations.vllm_ascend import register; register(); "
        "assert not {'torch', 'vllm', 'vllm_ascend'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_entry_point_is_what_pyproject_says():
    import tomllib
    from pathlib import Path

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    named = project["project"]["entry-points"]["vllm.general_plugins"]["hajax"]
    point = importlib.metadata.EntryPoint("hajax", named, "vllm.general_plugins")
    assert point.load() is plugin.register
