"""patch_transformers(): every family gives the same with the patch as without, in all the ways that transformers is called."""

import itertools
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytestmark = [
    pytest.mark.torch, pytest.mark.native,
    pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning"),
]  # fmt: skip

from hajax.integrations import patch_transformers  # noqa: E402 (needs torch)
from hajax.integrations import transformers as integration  # noqa: E402 (needs torch)

COMMON = {
    "hidden_size": 64, "num_hidden_layers": 4, "intermediate_size": 96, "num_attention_heads": 4, "vocab_size": 99,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
QWEN = {
    **COMMON, "num_key_value_heads": 2, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
    "linear_key_head_dim": 16, "linear_value_head_dim": 24,
}  # fmt: skip
QWEN_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
KIMI = {
    **COMMON, "num_key_value_heads": 4, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
    "linear_num_heads": 4, "linear_head_dim": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
}  # fmt: skip
FAMILIES = {
    "qwen3_5": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM", QWEN),
    "qwen3_5_moe": ("Qwen3_5MoeTextConfig", "Qwen3_5MoeForCausalLM", QWEN | QWEN_MOE),
    "qwen3_next": ("Qwen3NextConfig", "Qwen3NextForCausalLM", QWEN | QWEN_MOE),
    "kimi_linear": ("KimiLinearConfig", "KimiLinearForCausalLM",
                    KIMI | {"num_local_experts": 4, "q_lora_rank": None, "n_group": 1, "topk_group": 1}),
    "bailing_hybrid": ("BailingHybridConfig", "BailingHybridForCausalLM",
                       KIMI | {"num_local_experts": 8, "q_lora_rank": 16, "n_group": 2, "topk_group": 1}),
}  # fmt: skip
BOUND = 1e-5  # logits of these models are below 1


@pytest.fixture(scope="module", params=FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(family):
    config, kind, options = FAMILIES[family]
    torch.manual_seed(0)
    made = getattr(transformers, kind)(getattr(transformers, config)(**options)).eval()
    with torch.no_grad():
        for parameter in made.parameters():  # norms' weights and biases away from their constants
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return made


def token_ids(rows=2, tokens=37):
    return torch.randint(3, 99, (rows, tokens), generator=torch.Generator().manual_seed(tokens))


def both(call):
    """Results without and with the patch, and without again."""
    before = call()
    with patch_transformers():
        patched = call()
    after = call()
    assert torch.equal(before, after), "the patch left something behind"
    return before, patched


def same(call, bound=BOUND):
    plain, patched = both(call)
    assert patched.dtype == plain.dtype
    assert torch.isfinite(patched.float()).all()
    assert (plain.float() - patched.float()).abs().max() <= bound


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("tokens", [1, 3, 37, 130])
def test_logits(model, tokens, grad):
    with torch.set_grad_enabled(grad):
        same(lambda: model(token_ids(tokens=tokens), use_cache=False).logits.detach())  # noqa: PLW0108 (nothing to inline)


def test_left_padded_rows(model):
    ids = token_ids()
    mask = torch.ones_like(ids)
    mask[0, :9] = 0
    with torch.no_grad():
        same(lambda: model(ids, attention_mask=mask, use_cache=False).logits[mask.bool()])
        with patch_transformers():
            alone = model(ids[:1, 9:], use_cache=False).logits
            padded = model(ids, attention_mask=mask, use_cache=False).logits[:1, 9:]
        assert (alone - padded).abs().max() <= BOUND


@pytest.mark.parametrize("cuts", [(20, 29), (1, 2), (2, 35), (36,)])
def test_a_prompt_in_pieces_and_single_tokens_through_the_cache(model, cuts):
    ids = token_ids()

    def pieces():
        cache, logits = transformers.DynamicCache(config=model.config), []
        ends = (0, *cuts, *range(cuts[-1] + 1, ids.shape[1] + 1))
        for start, end in itertools.pairwise(ends):
            logits.append(model(ids[:, start:end], cache=cache, use_cache=True).logits)
        return torch.cat(logits, 1)

    with torch.no_grad():
        same(pieces)
        with patch_transformers():
            assert (pieces() - model(ids, use_cache=False).logits).abs().max() <= BOUND


def test_a_cache_filled_without_the_patch_goes_on_with_it(model):
    ids = token_ids()

    def handed_over(first, second):
        cache = transformers.DynamicCache(config=model.config)
        with torch.no_grad():
            if first:
                with patch_transformers():
                    model(ids[:, :20], cache=cache, use_cache=True)
            else:
                model(ids[:, :20], cache=cache, use_cache=True)
            if not second:
                return model(ids[:, 20:], cache=cache, use_cache=True).logits
            with patch_transformers():
                return model(ids[:, 20:], cache=cache, use_cache=True).logits

    plain = handed_over(False, False)
    for first, second in ((True, False), (False, True), (True, True)):
        assert (handed_over(first, second) - plain).abs().max() <= BOUND


@pytest.mark.parametrize("options", [{"do_sample": False}, {"num_beams": 2, "do_sample": False}], ids=["greedy", "beams"])
def test_generate(model, options):
    ids = token_ids()
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    call = lambda: model.generate(ids, attention_mask=mask, max_new_tokens=8, **options)
    plain, patched = both(call)
    assert torch.equal(plain, patched)


def test_gradients_of_every_parameter(model):
    ids = token_ids()

    def gradients():
        model.zero_grad()
        model(ids, labels=ids, use_cache=False).loss.backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    plain = gradients()
    with patch_transformers():
        patched = gradients()
    model.zero_grad()
    assert plain.keys() == patched.keys()
    for name, gradient in plain.items():
        assert (gradient - patched[name]).norm() <= 1e-4 * gradient.norm() + 1e-7, name


def test_bfloat16_is_no_further_from_fp32(model):
    ids = token_ids()
    half = type(model)(model.config).eval()
    half.load_state_dict(model.state_dict())
    half = half.to(torch.bfloat16)
    with torch.no_grad():
        exact = model(ids, use_cache=False).logits
        plain, patched = both(lambda: half(ids, use_cache=False).logits)
    off, on = ((x.float() - exact).norm() for x in (plain, patched))
    assert on <= 1.5 * off


def test_the_kernels_are_called(model, monkeypatch):
    from hajax.backends import cpu

    calls, run = [], cpu.run
    monkeypatch.setattr(cpu, "run", lambda *args: (calls.append(1), run(*args)))
    with torch.no_grad():
        model(token_ids(), use_cache=False)
        assert not calls
        with patch_transformers():
            model(token_ids(), use_cache=False)
    linear = model.config.layer_types.count("linear_attention")
    assert len(calls) == linear == 3
    with patch_transformers():
        model(token_ids(), use_cache=False)
    assert len(calls) == 2 * linear


def test_hooks_see_what_modules_gave(model):
    """A hook's tensor must keep its values, though layers work in place."""
    seen, kept = [], []

    def hook(module, args, output):
        if isinstance(output, torch.Tensor):
            seen.append(output)
            kept.append(output.clone())

    handles = [module.register_forward_hook(hook) for module in model.modules()]
    try:
        with torch.no_grad(), patch_transformers():
            model(token_ids(), use_cache=False)
    finally:
        [handle.remove() for handle in handles]
    assert seen
    assert all(torch.equal(x, y) for x, y in zip(seen, kept, strict=True))


def test_hooks_fire_on_the_modules_they_fired_on(model):
    """Also on those whose work another module's forward has taken over; what they return counts."""

    def fired():
        names = set()
        handles = []
        for name, module in model.named_modules():
            handles.append(module.register_forward_hook(lambda *_, name=name: names.add(name)))
            handles.append(module.register_forward_pre_hook(lambda *_, name=name: names.add(f"before {name}")))
        with torch.no_grad():
            model(token_ids(), use_cache=False)
        [handle.remove() for handle in handles]
        return names

    wanted = fired()
    with patch_transformers():
        assert fired() == wanted


def test_a_compiled_model_holds_the_operator(model):
    """In one graph a layer, without a break."""
    from torch._dynamo.testing import CompileCounterWithBackend

    layer = next(m for m in model.modules() if type(m).__name__.endswith(("GatedDeltaNet", "DeltaAttention")))
    x = torch.randn(2, 37, 64, generator=torch.Generator().manual_seed(1))
    counter = CompileCounterWithBackend("aot_eager")
    with patch_transformers(), torch.no_grad():
        wanted = layer(x)
        torch._dynamo.reset()
        found = torch.compile(layer.forward, fullgraph=True, backend=counter)(x)
    torch._dynamo.reset()
    assert any("delta_rule" in str(node.target) for graph in counter.graphs for node in graph.graph.nodes)
    assert (found - wanted).abs().max() <= BOUND


def test_patches_nest_and_undo_once():
    module = transformers.models.qwen3_5.modeling_qwen3_5
    original = module.torch_chunk_gated_delta_rule
    first = patch_transformers()
    with patch_transformers() as second:
        assert module.torch_chunk_gated_delta_rule is not original
    assert module.torch_chunk_gated_delta_rule is not original, "the first is still on"
    second.undo()
    assert module.torch_chunk_gated_delta_rule is not original
    first.undo()
    first.undo()
    assert module.torch_chunk_gated_delta_rule is original


def test_another_transformers_is_refused_and_left_as_it_was(monkeypatch):
    module = transformers.models.kimi_linear.modeling_kimi_linear
    qwen = transformers.models.qwen3_5.modeling_qwen3_5
    original = qwen.torch_chunk_gated_delta_rule
    monkeypatch.delattr(module, "chunk_kimi_delta_attention")
    with pytest.raises(RuntimeError, match="chunk_kimi_delta_attention"):
        patch_transformers()
    assert qwen.torch_chunk_gated_delta_rule is original
    assert not integration._replaced


def test_packed_sequences_keep_apart():
    config, kind, options = FAMILIES["qwen3_5"]
    torch.manual_seed(0)
    model = getattr(transformers, kind)(getattr(transformers, config)(**options)).eval()
    ids, ends = token_ids(rows=1), [0, 5, 6, 37]
    bounds = torch.tensor(ends, dtype=torch.int32)
    lengths = bounds.diff()
    positions = torch.cat([torch.arange(n) for n in lengths])[None]
    seq_idx = torch.repeat_interleave(torch.arange(3), lengths)[None].int()
    with torch.no_grad(), patch_transformers():
        packed = model(
            ids, position_ids=positions, cu_seq_lens_q=bounds, cu_seq_lens_k=bounds, seq_idx=seq_idx, use_cache=False,
            max_length_q=31, max_length_k=31,
        ).logits  # fmt: skip
        alone = torch.cat([model(ids[:, a:b], use_cache=False).logits for a, b in itertools.pairwise(ends)], 1)
    assert (packed - alone).abs().max() <= BOUND


def test_importing_hajax_imports_neither():
    code = "import sys, hajax, hajax.integrations; assert not {'torch', 'transformers', 'fla'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
