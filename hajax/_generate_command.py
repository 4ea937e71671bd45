"""`hajax generate` without the command line: a request in, text through a callback, a report out."""

import dataclasses
import resource
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import numpy as np

from hajax import cache, models, ops, report
from hajax.plans import Fused, Plan


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What the user asked for; `model` None is the shipped demo model, `target` the chip that implementation "sim" emulates,
    `backend` None is JAX."""

    prompt: str
    model: Path | None = None
    max_new_tokens: int = 128
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0
    chat: bool = False
    dtype: str | None = None
    implementation: str | None = None
    target: str | None = None
    backend: str | None = None


def demo_folder() -> Path:
    """The demo checkpoint inside the package."""
    return Path(str(resources.files("hajax.models").joinpath("demo")))


def run(request: Request, on_text: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Generates and reports: text, token counts, speeds (measured, compilation apart), implementation, plan, peak memory.

    `on_text` gets each piece of text as it comes. Raises ValueError or OSError in one line for whatever is wrong.
    """
    with ops.use(implementation=request.implementation, target=request.target):
        return _run(request, on_text)


def _run(request: Request, on_text: Callable[[str], None] | None) -> dict[str, Any]:
    _keep_programs()
    sampling = models.Sampling(request.temperature, request.top_k, request.top_p, request.seed)
    folder = request.model if request.model is not None else demo_folder()
    model = models.load(folder, dtype=request.dtype, implementation=request.implementation, backend=request.backend)
    text = request.prompt
    if request.chat:
        text = model.tokenizer.apply_chat_template([{"role": "user", "content": text}])
    tokens = model.tokenizer.encode(text, add_special_tokens=not request.chat)
    if not tokens:
        raise ValueError("prompt: expected at least one token of text, got none")
    stream, pieces = model.tokenizer.stream(), []

    def show(piece: str) -> None:
        pieces.append(piece)
        if on_text is not None and piece:
            on_text(piece)

    def push(token: np.ndarray, fresh: np.ndarray) -> None:
        if fresh[0]:
            show(stream.push(int(token[0])))

    done = model.complete([tokens], max_new_tokens=request.max_new_tokens, sampling=sampling, on_tokens=push)
    show(stream.flush())
    prefill = [plan for plan in model.plans() if plan.shape.tokens is None or plan.shape.tokens > 1]
    return {
        "text": "".join(pieces),
        "prompt_tokens": done.prompt_tokens,
        "new_tokens": done.new_tokens,
        "prefill_seconds": done.prefill_seconds,
        "prefill_tokens_per_second": done.prefill_tokens_per_second,
        "decode_tokens_per_second": done.decode_tokens_per_second,
        "backend": request.backend or "jax",
        "implementation": _implementation(model.plans()),
        "plan": report.summary(prefill[0]) if prefill else None,
        "peak_rss_mib": _peak_rss_mib(),
    }


def _implementation(plans: tuple[Plan, ...]) -> str:
    """What the plans that were taken ran on; without any, plain jnp."""
    if not plans:
        return "xla"
    return "cpu" if isinstance(plans[0].launch, Fused) else "sim"


def _keep_programs() -> None:
    """Lets JAX find in the next process what it compiled in this one, unless the user has set that up already."""
    programs = cache.programs_folder()
    if programs is None or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    jax.config.update("jax_compilation_cache_dir", str(programs))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)


def _peak_rss_mib() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def describe(result: dict[str, Any]) -> str:
    """The report as two lines for people."""
    return (
        f"[measured: prefill {result['prompt_tokens']} tokens, {result['prefill_tokens_per_second']:.0f} tokens/s; "
        f"decode {result['new_tokens']} tokens, {result['decode_tokens_per_second']:.0f} tokens/s; "
        f"peak memory {result['peak_rss_mib']:.0f} MiB]\n"
        f"[plan: {result['plan'] or 'none, implementation ' + result['implementation']}]"
    )
