"""What a hybrid language model is made of, as sizes: what its prefill costs depends on nothing else."""

from dataclasses import dataclass

MOST_DELTA_DIM = 128  # of a delta-rule head on a chip
MOST_ATTENTION_DIM = 1024  # of an attention head: 16 queries of it, twice, fill L0A


def _positive(owner: str, **sizes: int | None) -> None:
    for name, size in sizes.items():
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 1 << 24):
            raise ValueError(f"{owner}.{name}: expected a positive integer up to {1 << 24}, got {size!r}")


def _attention_dims(owner: str, **dims: int) -> None:
    for name, dim in dims.items():
        if dim > MOST_ATTENTION_DIM:
            raise ValueError(f"{owner}.{name}: expected at most {MOST_ATTENTION_DIM}, got {dim}")


@dataclass(frozen=True, slots=True)
class DeltaRule:
    """Gated DeltaNet ("gated_delta_rule") or Kimi Delta Attention ("kda") with a causal convolution over q, k and v.

    gate_rank: of KDA's forget and output gates, each hidden -> rank -> heads * dim; None: one full matrix each.
    bounded: KDA's forget gate is a sigmoid with a lower bound instead of a softplus.
    """

    mechanism: str
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_taps: int
    gate_rank: int | None = None
    bounded: bool = False

    def __post_init__(self) -> None:
        if self.mechanism not in ("gated_delta_rule", "kda"):
            raise ValueError(f"DeltaRule.mechanism: expected gated_delta_rule or kda, got {self.mechanism!r}")
        _positive("DeltaRule", key_heads=self.key_heads, value_heads=self.value_heads, key_dim=self.key_dim)
        _positive("DeltaRule", value_dim=self.value_dim, conv_taps=self.conv_taps, gate_rank=self.gate_rank)
        for name, dim in (("key_dim", self.key_dim), ("value_dim", self.value_dim)):
            if dim > MOST_DELTA_DIM:
                raise ValueError(f"DeltaRule.{name}: expected head dims of at most {MOST_DELTA_DIM} on a chip, got {dim}")
        if self.value_heads % self.key_heads:
            raise ValueError(
                f"DeltaRule.value_heads: expected a multiple of the {self.key_heads} key heads, got {self.value_heads}"
            )
        if self.mechanism == "kda" and self.key_heads != self.value_heads:
            raise ValueError(f"DeltaRule.key_heads: expected the {self.value_heads} value heads for kda, got {self.key_heads}")

    @property
    def keys(self) -> int:
        """Channels of all keys."""
        return self.key_heads * self.key_dim

    @property
    def values(self) -> int:
        """Channels of all values."""
        return self.value_heads * self.value_dim

    @property
    def convolved(self) -> int:
        """Channels of q, k and v."""
        return 2 * self.keys + self.values


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention with grouped heads, normalised and partly rotated q and k, and a sigmoid gate on its output."""

    heads: int
    kv_heads: int
    head_dim: int
    rotated: int

    def __post_init__(self) -> None:
        _positive("Attention", heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim, rotated=self.rotated)
        _attention_dims("Attention", head_dim=self.head_dim)
        if self.rotated > self.head_dim:
            raise ValueError(f"Attention.rotated: expected at most the head's {self.head_dim}, got {self.rotated}")
        if self.heads % self.kv_heads:
            raise ValueError(f"Attention.heads: expected a multiple of the {self.kv_heads} key heads, got {self.heads}")


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention, with keys and values expanded from the latent, as a prefill does it.

    query_rank None: one matrix for the queries. rotates: False where the rope dims are left unrotated (NoPE).
    head_gate: a sigmoid gate for each head on the output.
    """

    heads: int
    query_rank: int | None
    latent_rank: int
    plain_dim: int
    rope_dim: int
    value_dim: int
    rotates: bool
    head_gate: bool

    def __post_init__(self) -> None:
        _positive("LatentAttention", heads=self.heads, query_rank=self.query_rank, latent_rank=self.latent_rank)
        _positive("LatentAttention", plain_dim=self.plain_dim, rope_dim=self.rope_dim, value_dim=self.value_dim)
        _attention_dims("LatentAttention", key_dim=self.key_dim, value_dim=self.value_dim)

    @property
    def key_dim(self) -> int:
        """Of one head."""
        return self.plain_dim + self.rope_dim


@dataclass(frozen=True, slots=True)
class Mlp:
    """down(silu(gate x) * up x)."""

    width: int

    def __post_init__(self) -> None:
        _positive("Mlp", width=self.width)


@dataclass(frozen=True, slots=True)
class Experts:
    """`chosen` of `count` MLPs of `width` for each token, and `shared` ones of that width for all."""

    count: int
    chosen: int
    shared: int
    width: int

    def __post_init__(self) -> None:
        _positive("Experts", count=self.count, chosen=self.chosen, width=self.width)
        if isinstance(self.shared, bool) or not isinstance(self.shared, int) or not 0 <= self.shared <= 64:
            raise ValueError(f"Experts.shared: expected 0 to 64, got {self.shared!r}")
        if self.chosen > self.count:
            raise ValueError(f"Experts.chosen: expected at most the {self.count} experts, got {self.chosen}")


Mixer = DeltaRule | Attention | LatentAttention
FeedForward = Mlp | Experts


@dataclass(frozen=True, slots=True)
class Layer:
    """norm -> mixer -> + -> norm -> feed forward -> +."""

    mixer: Mixer
    feed_forward: FeedForward


@dataclass(frozen=True, slots=True)
class Model:
    """tied: the head's matrix is the embedding. notes: what about these sizes a reader must know."""

    name: str
    hidden: int
    vocabulary: int
    tied: bool
    layers: tuple[Layer, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _positive("Model", hidden=self.hidden, vocabulary=self.vocabulary)
        if not 1 <= len(self.layers) <= 1024:
            raise ValueError(f"Model.layers: expected 1 to 1024 layers, got {len(self.layers)}")


def parameters(model: Model) -> int:
    """All weights of the text model, without layers that only predict further tokens (MTP)."""
    embeddings = model.vocabulary * model.hidden * (1 if model.tied else 2)
    layers = sum(_mixer(layer.mixer, model.hidden) + _feed_forward(layer.feed_forward, model.hidden) for layer in model.layers)
    return embeddings + layers + (2 * len(model.layers) + 1) * model.hidden


def _mixer(mixer: Mixer, hidden: int) -> int:
    match mixer:
        case DeltaRule():
            ends = hidden * mixer.convolved + mixer.convolved * mixer.conv_taps + mixer.values * hidden + mixer.value_dim
            heads = mixer.value_heads
            if mixer.mechanism == "gated_delta_rule":
                return ends + hidden * (mixer.values + 2 * heads) + 2 * heads
            rank = mixer.gate_rank
            gate = hidden * mixer.values if rank is None else rank * (hidden + mixer.values)
            return ends + 2 * gate + hidden * heads + heads + mixer.values
        case Attention():
            return hidden * mixer.head_dim * (3 * mixer.heads + 2 * mixer.kv_heads) + 2 * mixer.head_dim
        case LatentAttention():
            queries, rank = mixer.heads * mixer.key_dim, mixer.query_rank
            first = hidden * queries if rank is None else rank * (hidden + 1 + queries)
            latent = hidden * (mixer.latent_rank + mixer.rope_dim) + mixer.latent_rank
            expanded = mixer.latent_rank * mixer.heads * (mixer.plain_dim + mixer.value_dim)
            last = mixer.heads * mixer.value_dim * hidden + (hidden * mixer.heads if mixer.head_gate else 0)
            return first + latent + expanded + last


def _feed_forward(feed_forward: FeedForward, hidden: int) -> int:
    match feed_forward:
        case Mlp():
            return 3 * hidden * feed_forward.width
        case Experts():
            router = hidden * feed_forward.count + feed_forward.count
            return router + 3 * hidden * feed_forward.width * (feed_forward.count + feed_forward.shared)
