"""JAX's persistent compilation cache: a second process compiles nothing."""

import json
import subprocess
import sys

from problem import environment

SCRIPT = """
import json, sys
import jax, numpy as np
from jax._src import monitoring
events = []
monitoring.register_event_listener(lambda name, **_: events.append(name))
import hajax
x = np.ones((1, 20, 1, 16), np.float32) / 4
g = np.full((1, 20, 1), -0.5, np.float32)
call = jax.jit(lambda x, g: hajax.gated_delta_rule(x, x, x, g, -g, implementation=sys.argv[1]))
output, state = call(x, g)
count = lambda word: sum(word in name for name in events)
print(json.dumps({"hits": count("/cache_hits"), "misses": count("/cache_misses"), "sum": float(output.sum())}))
"""


def run(folder, implementation="cpu"):
    variables = environment(
        JAX_COMPILATION_CACHE_DIR=folder / "xla",
        JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=0,
        JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES=-1,
        HAJAX_CACHE_DIR=folder / "plans",
    )
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, implementation], env=variables, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_a_second_process_hits_for_everything(tmp_path):
    first, second = run(tmp_path), run(tmp_path)
    assert first["misses"] > 0
    assert second["misses"] == 0, "the second process compiled again"
    assert second["hits"] >= first["misses"]
    assert second["sum"] == first["sum"] != 0


def test_another_implementation_is_another_entry(tmp_path):
    run(tmp_path)
    assert run(tmp_path, "xla")["misses"] > 0
