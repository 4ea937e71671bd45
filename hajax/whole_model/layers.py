"""The kernels of a prefill in their order. What works on a tile that has just left the cube is that product's epilogue; norms of
whole rows, the convolution, rotation and the experts' gathers are launches of their own."""

from hajax.whole_model.kernels import DeltaRuleCore, Elementwise, Kernel, Kind, Lanes, Matmul, SoftmaxAttention
from hajax.whole_model.sizes import Attention, DeltaRule, Experts, FeedForward, LatentAttention, Layer, Mixer, Mlp, Model

HALF, SINGLE = 2, 4  # bytes
_LANES_OF_A_SUM = 8  # fp32 values that one block's sum makes one of


def embedding_kernels(model: Model, tokens: int) -> tuple[Kernel, ...]:
    """Rows of the table, one copy in and one out for each token."""
    size = HALF * tokens * model.hidden
    weights = model.vocabulary * model.hidden
    return (Elementwise("embedding rows", "embedding and head", (), size, size, copies=tokens, weights=weights),)


def head_kernels(model: Model) -> tuple[Kernel, ...]:
    """The last token's norm and logits."""
    logits = Matmul(
        "last token's logits", "embedding and head", 1, model.vocabulary, model.hidden, written=HALF * model.vocabulary
    )
    return (_norm("last token's norm", 1, model.hidden), logits)


def layer_kernels(layer: Layer, hidden: int, tokens: int) -> tuple[Kernel, ...]:
    """norm -> mixer -> norm -> feed forward, residuals in the epilogues of the last products."""
    return (
        _norm("norm before the mixer", tokens, hidden),
        *_mixer(layer.mixer, hidden, tokens),
        _norm("norm before the feed forward", tokens, hidden),
        *_feed_forward(layer.feed_forward, hidden, tokens),
    )


def _mixer(mixer: Mixer, hidden: int, tokens: int) -> tuple[Kernel, ...]:
    match mixer:
        case DeltaRule():
            return _delta_rule(mixer, hidden, tokens)
        case Attention():
            return _attention(mixer, hidden, tokens)
        case LatentAttention():
            return _latent_attention(mixer, hidden, tokens)


def _feed_forward(feed_forward: FeedForward, hidden: int, tokens: int) -> tuple[Kernel, ...]:
    match feed_forward:
        case Mlp():
            return _mlp("MLP", feed_forward.width, hidden, tokens, residual=True)
        case Experts():
            return _experts(feed_forward, hidden, tokens)


def _delta_rule(mixer: DeltaRule, hidden: int, tokens: int) -> tuple[Kernel, ...]:
    heads, values = mixer.value_heads, mixer.values
    channels = tokens * mixer.convolved
    normed = tokens * 2 * mixer.keys
    gated = tokens * values
    gates = tokens * heads
    per_channel = mixer.mechanism == "kda"
    decays = () if per_channel else (*_softplus(gates), Lanes("vmul", gates))
    conv = Elementwise(
        "causal conv, SiLU, l2norm, gates",
        "conv and gates",
        (
            Lanes("vconv", channels), Lanes("vmul", channels), Lanes("vmla", (mixer.conv_taps - 1) * channels), *_silu(channels),
            *_row_norm(normed), Lanes("vconv", channels), *decays, *_sigmoid(gates),
        ),
        read=HALF * (channels + mixer.convolved * mixer.conv_taps + gates * (1 if per_channel else 2)),
        written=HALF * channels + SINGLE * gates * (1 if per_channel else 2),
        weights=mixer.convolved * mixer.conv_taps,
    )  # fmt: skip
    core = DeltaRuleCore(
        "delta rule", "delta rule", mixer.mechanism, tokens, mixer.key_heads, heads, mixer.key_dim, mixer.value_dim
    )
    activation = _sigmoid(gated) if per_channel else _silu(gated)
    norm = Elementwise(
        "gated norm of the output",
        "norms",
        (Lanes("vconv", 3 * gated), *_row_norm(gated), Lanes("vmul", gated), *activation, Lanes("vmul", gated)),
        read=2 * HALF * gated, written=HALF * gated, weights=mixer.value_dim,
    )  # fmt: skip
    out = _product("output projection", "projections", tokens, hidden, values, residual=True)
    return (*_delta_projections(mixer, hidden, tokens), conv, core, norm, out)


def _delta_projections(mixer: DeltaRule, hidden: int, tokens: int) -> tuple[Kernel, ...]:
    """Matrices that read the same rows are one product; KDA's forget gate leaves its own as fp32 log decays."""
    heads, values, rank = mixer.value_heads, mixer.values, mixer.gate_rank
    if mixer.mechanism == "gated_delta_rule":
        return (_product("q, k, v, z, gates", "projections", tokens, mixer.convolved + values + 2 * heads, hidden),)
    gated = tokens * values
    forget = (Lanes("vadd", gated), *((Lanes("vmul", gated), *_sigmoid(gated)) if mixer.bounded else _softplus(gated)))
    if not mixer.bounded:
        forget = (*forget, Lanes("vmul", gated))
    first = mixer.convolved + heads + (values if rank is None else 2 * rank)
    depth = hidden if rank is None else rank
    found: list[Kernel] = [_product("q, k, v, z, beta", "projections", tokens, first, hidden)]
    found.append(Matmul("forget gate", "projections", tokens, values, depth, written=SINGLE * gated, epilogue=forget))
    if rank is not None:
        found.append(_product("output gate", "projections", tokens, values, rank))
    return tuple(found)


def _attention(mixer: Attention, hidden: int, tokens: int) -> tuple[Kernel, ...]:
    heads, kv_heads, dim = mixer.heads, mixer.kv_heads, mixer.head_dim
    rows = tokens * (heads + kv_heads)
    project = _product("q, gate, k, v", "projections", tokens, 2 * dim * (heads + kv_heads), hidden)
    rotate = Elementwise(
        "norm and rotation of q and k",
        "attention",
        (Lanes("vconv", 2 * rows * dim), *_row_norm(rows * dim), Lanes("vmul", rows * dim), *_rotation(rows * mixer.rotated)),
        read=HALF * rows * dim + SINGLE * tokens * mixer.rotated, written=HALF * rows * dim, weights=2 * dim,
    )  # fmt: skip
    gated = tokens * heads * dim
    attend = SoftmaxAttention(
        "scores, softmax, values", "attention", tokens, heads, kv_heads, dim, dim,
        epilogue=(Lanes("vconv", gated), *_sigmoid(gated), Lanes("vmul", gated)), read=HALF * gated,
    )  # fmt: skip
    return (project, rotate, attend, _product("output projection", "projections", tokens, hidden, heads * dim, residual=True))


def _latent_attention(mixer: LatentAttention, hidden: int, tokens: int) -> tuple[Kernel, ...]:
    heads, rank = mixer.heads, mixer.query_rank
    queries, latent = heads * mixer.key_dim, mixer.latent_rank + mixer.rope_dim
    gate = heads if mixer.head_gate else 0
    normed = mixer.latent_rank + (rank or 0)
    found: list[Kernel] = [
        _product("q and latent", "projections", tokens, (queries if rank is None else rank) + latent + gate, hidden),
        _norm("norm of the latent", tokens, normed),
    ]
    if rank is not None:
        found.append(_product("q from its latent", "projections", tokens, queries, rank))
    expanded = heads * (mixer.plain_dim + mixer.value_dim)
    found.append(_product("keys and values from the latent", "projections", tokens, expanded, mixer.latent_rank))
    if mixer.rotates:
        rotated = tokens * (heads + 1) * mixer.rope_dim
        work = (Lanes("vconv", 2 * rotated), *_rotation(rotated))
        tables = SINGLE * tokens * mixer.rope_dim
        found.append(Elementwise("rotation of q and k", "attention", work, HALF * rotated + tables, HALF * rotated))
    out = tokens * heads * mixer.value_dim
    epilogue = (*_sigmoid(tokens * heads), Lanes("vmul", out)) if mixer.head_gate else ()
    found.append(
        SoftmaxAttention(
            "scores, softmax, values", "attention", tokens, heads, heads, mixer.key_dim, mixer.value_dim, epilogue=epilogue,
            read=HALF * tokens * gate,
        )
    )  # fmt: skip
    found.append(_product("output projection", "projections", tokens, hidden, heads * mixer.value_dim, residual=True))
    return tuple(found)


def _mlp(name: str, width: int, hidden: int, tokens: int, residual: bool) -> tuple[Kernel, ...]:
    return (
        _gated_product(f"{name}: gate, up, SwiGLU", tokens, width, hidden),
        _product(f"{name}: down", "feed forward", tokens, hidden, width, residual=residual),
    )


def _experts(experts: Experts, hidden: int, tokens: int) -> tuple[Kernel, ...]:
    """Tokens times top-k spread evenly over the experts; each expert's weights are read for its own tokens, together."""
    scores, rows = tokens * experts.count, tokens * experts.chosen
    touched = min(experts.count, rows)
    each = -(-rows // touched)
    choose = (*_sigmoid(scores), Lanes("vadd", scores), *(Lanes("vmax", scores), Lanes("vsel", scores)) * experts.chosen)
    found: list[Kernel] = [
        Matmul("router and top-k", "feed forward", tokens, experts.count, hidden, written=8 * rows, epilogue=choose),
        Elementwise(
            "rows to experts", "feed forward", (), HALF * tokens * hidden, HALF * rows * hidden, copies=rows
        ),
        _gated_product("experts: gate, up, SwiGLU", each, experts.width, hidden, batch=touched),
        _product("experts: down", "feed forward", each, hidden, experts.width, batch=touched),
    ]  # fmt: skip
    shared = experts.shared * experts.width
    if shared:
        found += _mlp("shared expert", shared, hidden, tokens, residual=False)
    added = tokens * hidden * (experts.chosen + (1 if shared else 0))
    work = (Lanes("vconv", added + 2 * tokens * hidden), Lanes("vmla", added), Lanes("vadd", tokens * hidden))
    total = HALF * (added + tokens * hidden)
    found.append(Elementwise("weighted sum and residual", "feed forward", work, total, HALF * tokens * hidden, copies=rows))
    return tuple(found)


def _product(
    name: str, kind: Kind, m: int, n: int, k: int, *, batch: int = 1, residual: bool = False
) -> Matmul:  # fmt: skip
    """residual: fp16 rows are added in fp32."""
    size = batch * m * n
    epilogue = (Lanes("vconv", 2 * size), Lanes("vadd", size)) if residual else ()
    return Matmul(name, kind, m, n, k, HALF * size, batch, epilogue, HALF * size if residual else 0)


def _gated_product(name: str, m: int, width: int, k: int, *, batch: int = 1) -> Matmul:
    """Gate and up columns of a tile leave the cube together: silu(gate) * up, half as wide."""
    size = batch * m * width
    epilogue = (*_silu(size), Lanes("vmul", size), Lanes("vconv", size))
    return Matmul(name, "feed forward", m, 2 * width, k, HALF * size, batch, epilogue)


def _norm(name: str, rows: int, size: int) -> Elementwise:
    elements = rows * size
    work = (Lanes("vconv", 2 * elements), *_row_norm(elements), Lanes("vmul", elements))
    return Elementwise(name, "norms", work, HALF * (elements + size), HALF * elements, weights=size)


def _row_norm(elements: int) -> tuple[Lanes, ...]:
    """x / sqrt(sum x^2 + eps): the squares, block columns added up, blocks summed, a row's factor spread over a block."""
    few = -(-elements // _LANES_OF_A_SUM)
    least = -(-few // _LANES_OF_A_SUM)
    scalars = tuple(Lanes(name, least) for name in ("vmuls", "vadds", "vrsqrt"))
    return (
        Lanes("vmul", elements), Lanes("vadd", elements), Lanes("vcgadd", few), *scalars, Lanes("vgather", few),
        Lanes("vmul", elements),
    )  # fmt: skip


def _sigmoid(elements: int) -> tuple[Lanes, ...]:
    """1 / (1 + exp(-x))."""
    return tuple(Lanes(name, elements) for name in ("vmuls", "vexp", "vadds", "vdiv"))


def _silu(elements: int) -> tuple[Lanes, ...]:
    """x / (1 + exp(-x))."""
    return _sigmoid(elements)


def _softplus(elements: int) -> tuple[Lanes, ...]:
    """max(x, 0) + log(1 + exp(-|x|))."""
    return tuple(Lanes(name, elements) for name in ("vabs", "vmuls", "vexp", "vadds", "vln", "vmaxs", "vadd"))


def _rotation(elements: int) -> tuple[Lanes, ...]:
    """x cos + swapped(x) sin."""
    return (Lanes("vmul", elements), Lanes("vmla", elements))
