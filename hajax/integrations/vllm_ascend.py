"""A plugin of vllm (entry point `vllm.general_plugins`): vllm-ascend's chunk path of gated delta nets on a 310P by hajax.

vllm-ascend prefills on a 310P through one function of vllm_ascend._310p.ops.fla.chunk_gated_delta_rule, `..._310`
(newer, states [N, HV, V, K]) or `..._pytorch` (older, [N, HV, K, V]). `register` replaces what it finds there,
and where it was imported from there already. Nothing happens without vllm-ascend or on another chip. The first call runs both and
compares: where they differ, or hajax cannot serve a call, vllm-ascend's own function stays, and the log says why.

Not run on a device, nor inside vllm: tests drive it through stub modules with these names and signatures.
"""

import functools
import importlib
import importlib.util
import logging
import sys
from collections.abc import Callable
from typing import Any

MODULE = "vllm_ascend._310p.ops.fla.chunk_gated_delta_rule"
USERS = ("vllm_ascend._310p.ops.fla.gdn_310", "vllm_ascend._310p.ops.fla")
V_FIRST = {"chunk_gated_delta_rule_310": True, "chunk_gated_delta_rule_pytorch": False}
TOLERANCE = 2e-2  # of the largest element: both work in fp16

_log = logging.getLogger("hajax.vllm_ascend")

Function = Callable[..., Any]


def register() -> None:
    """What vllm calls once in every process."""
    if importlib.util.find_spec("vllm_ascend") is None:
        return
    try:
        if not importlib.import_module("vllm_ascend.utils").is_310p():
            return
        module = importlib.import_module(MODULE)
    except (ImportError, AttributeError) as error:
        _log.warning("hajax: this vllm-ascend is not as expected (%s); its own kernels stay", error)
        return
    known = {name: getattr(module, name) for name in V_FIRST if hasattr(module, name)}
    if not known:
        _log.warning("hajax: %s has none of %s; its own kernels stay", MODULE, ", ".join(V_FIRST))
    for name, original in known.items():
        if getattr(original, "hajax_replaces", None) is not None:
            continue
        ours = replacement(original, v_first=V_FIRST[name])
        for user in (MODULE, *USERS):
            if getattr(sys.modules.get(user), name, None) is original:
                setattr(sys.modules[user], name, ours)
        _log.info("hajax: serves %s", name)


def replacement(original: Function, *, v_first: bool) -> Function:
    """A function that stands for `original`, once a first call has shown that both agree."""
    state = {"mode": "untried"}

    @functools.wraps(original)
    def call(q: Any, k: Any, v: Any, g: Any, beta: Any, **options: Any) -> Any:
        if state["mode"] == "off" or not _known(options):
            return original(q, k, v, g, beta, **options)
        try:
            ours = _ours(q, k, v, g, beta, v_first, **options)
        except Exception as error:  # whatever it is, serving goes on
            _log.warning("hajax: cannot serve this call (%s: %s); vllm-ascend's own kernel does", type(error).__name__, error)
            if state["mode"] == "untried":
                state["mode"] = "off"
            return original(q, k, v, g, beta, **options)
        if state["mode"] == "on":
            return ours
        theirs = original(q, k, v, g, beta, **options)
        worst = max(_distance(mine, one) for mine, one in zip(ours, theirs, strict=True) if one is not None)
        state["mode"] = "on" if worst <= TOLERANCE else "off"
        if state["mode"] == "off":
            _log.warning(
                "hajax: %s differs by %.3g from %s; it stays", __name__, worst, getattr(original, "__name__", "the original")
            )
        return theirs

    call.hajax_replaces = original  # type: ignore[attr-defined]
    return call


_OPTIONS = frozenset(
    {"scale", "initial_state", "output_final_state", "cu_seqlens", "head_first", "use_qk_l2norm_in_kernel"}
)  # fmt: skip


def _known(options: dict[str, Any]) -> bool:
    """Whether a call asks for nothing but what both interfaces have; newer ones hand over plans and callbacks."""
    return not options.get("head_first") and all(name in _OPTIONS or value is None for name, value in options.items())


def _ours(q: Any, k: Any, v: Any, g: Any, beta: Any, v_first: bool, **options: Any) -> tuple[Any, Any]:
    from hajax.integrations import fla

    flat = q.ndim == 3  # [T, H, D], all sequences behind one another
    if flat:
        q, k, v, g, beta = (x[None] for x in (q, k, v, g, beta))
    output, final = fla.chunk_gated_delta_rule(
        q, k, v, g, beta,
        scale=options.get("scale"),
        initial_state=options.get("initial_state"),
        output_final_state=options.get("output_final_state", False),
        use_qk_l2norm_in_kernel=options.get("use_qk_l2norm_in_kernel", False),
        cu_seqlens=options.get("cu_seqlens"),
        state_v_first=v_first,
    )  # fmt: skip
    return (output[0] if flat else output).to(v.dtype), final


def _distance(ours: Any, theirs: Any) -> float:
    """The largest difference beside the largest element; infinite where one is not finite or has another shape."""
    if ours is None or ours.shape != theirs.shape:
        return float("inf")
    largest, worst = theirs.float().abs().max().item(), (ours.float() - theirs.float()).abs().max().item()
    return float(worst / max(largest, 1e-6)) if worst == worst else float("inf")
