"""A plan is a pure function of its inputs: equal bytes again, in another process, whatever the hash seed, and without JAX."""

import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from planning import AVX2, AVX512, schedule, shape_of
from problem import environment

import hajax
from hajax import planner, report
from hajax.mechanisms import GATED_DELTA_RULE
from hajax.plans import to_bytes, to_json

SCRIPT = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from planning import *
from hajax.plans import to_bytes, to_json
plans = [schedule(shape_of(t, (4, 12), (64, 72), d)) for t in (1, 100, 2048) for d in ("float32", "bfloat16")]
print(hashlib.sha256(b"".join(to_bytes(p) + to_json(p).encode() for p in plans)).hexdigest(), "jax" in sys.modules)
"""


def here():
    plans = [schedule(shape_of(t, (4, 12), (64, 72), d)) for t in (1, 100, 2048) for d in ("float32", "bfloat16")]
    return hashlib.sha256(b"".join(to_bytes(p) + to_json(p).encode() for p in plans)).hexdigest()


@pytest.mark.parametrize("hash_seed", [0, 1234])
def test_another_process_makes_the_same_bytes(hash_seed):
    support = next(p for p in sys.path if p.endswith("support"))
    command = [sys.executable, "-c", SCRIPT, support]
    done = subprocess.run(command, env=environment(PYTHONHASHSEED=hash_seed), capture_output=True, text=True, check=True)
    assert done.stdout.split() == [here(), "False"]


def test_the_key_changes_with_everything_a_plan_depends_on():
    shape = shape_of(100)
    keys = [planner.cache_key(GATED_DELTA_RULE, shape, AVX512, "cpu_fused")]
    keys.append(planner.cache_key(GATED_DELTA_RULE, shape, AVX2, "cpu_fused"))
    keys.append(planner.cache_key(GATED_DELTA_RULE, shape, AVX512, "another"))
    keys.append(planner.cache_key(replace(GATED_DELTA_RULE, delta=False), shape, AVX512, "cpu_fused"))
    for field, value in {
        "batch": 2, "tokens": 101, "sequences": 2, "key_heads": 8, "value_heads": 32, "key_dim": 64, "value_dim": 64,
        "input_dtype": "float16", "output_dtype": "bfloat16",
    }.items():  # fmt: skip
        keys.append(planner.cache_key(GATED_DELTA_RULE, replace(shape, **{field: value}), AVX512, "cpu_fused"))
    for field, value in {"panel": 16, "bf16_dot": False, "threads": 8, "l1_bytes": 1, "l2_bytes": 1}.items():
        keys.append(planner.cache_key(GATED_DELTA_RULE, shape, replace(AVX512, **{field: value}), "cpu_fused"))
    assert len(set(keys)) == len(keys)


def test_more_threads_never_make_the_modelled_makespan_longer():
    from hajax import cost

    shape = shape_of(2048, (2, 4))
    spans = [cost.cpu_makespan(GATED_DELTA_RULE, shape, replace(AVX512, threads=n), 64, 4, 1, 1).units for n in (1, 2, 4, 8)]
    assert spans == sorted(spans, reverse=True)


def test_explain_says_what_each_pass_chose():
    text = hajax.explain(schedule(shape_of(2048, (16, 32))))
    for word in ("gated_delta_rule", "T=2048", "heads 16/32", "chunking", "token_steps", "mapping", "bf16_dot", "buffers"):
        assert word in text


@pytest.mark.parametrize(("changes", "message"), [
    ({"mechanism": "attention"}, r"mechanism: expected one of \[.*'gated_delta_rule'.*'kda'.*\], got 'attention'"),
    ({"mechanism": None}, r"mechanism: expected one of \[.*\], got None"),
    ({"tokens": 0}, "tokens: expected a positive integer, got 0"),
    ({"tokens": 10**20}, "tokens: expected at most 2147483647, got 100000000000000000000"),
    ({"tokens": 10**20, "target": "ascend310p1"}, "tokens: expected at most 2147483647, got 100000000000000000000"),
    ({"sequences": 2**31}, "sequences: expected at most 2147483647, got 2147483648"),
    ({"key_heads": 2**31}, "key_heads: expected at most 2147483647, got 2147483648"),
    ({"value_heads": 2**31}, "value_heads: expected at most 2147483647, got 2147483648"),
    ({"key_dim": 2**31}, "key_dim: expected at most 2147483647, got 2147483648"),
    ({"value_dim": 2**31}, "value_dim: expected at most 2147483647, got 2147483648"),
    ({"batch": 2**63}, "batch: expected at most 9223372036854775807, got 9223372036854775808"),
    ({"batch": np.True_}, "batch: expected a positive integer, got np.True_"),
    ({"batch": 2**40, "target": "ascend310p1"}, "shape: expected at most 131072 value heads over all sequences on a chip, got"),
    ({"batch": True}, "batch: expected a positive integer, got True"),
    ({"key_heads": 1.5}, "key_heads: expected a positive integer, got 1.5"),
    ({"value_heads": 3}, "value_heads: expected a multiple of key_heads=2, got 3"),
    ({"dtype": "float64"}, "dtype: expected one of .*, got 'float64'"),
    ({"output_dtype": "int8"}, "output_dtype: expected one of .*, got 'int8'"),
    ({"target": "tpu"}, "target: expected 'cpu', one of .* or a target, got 'tpu'"),
    ({"target": None}, "target: expected 'cpu', one of .* or a target, got None"),
    ({"schedule": []}, r"schedule: expected a name or None, got \[\]"),
    ({"schedule": "fla"}, r"schedule: expected one of \['auto', 'cpu_backward', 'cpu_fused'\], got 'fla'"),
    ({"key_dim": 12}, "key_dim: expected a multiple of 8 up to 256, got 12"),
    ({"value_dim": 264}, "value_dim: expected a multiple of 8 up to 256, got 264"),
])  # fmt: skip
def test_a_wrong_argument_of_plan_is_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        hajax.plan(**({"tokens": 8, "key_heads": 2, "value_heads": 4, "target": AVX512} | changes))


def test_sizes_of_plan_may_be_integers_of_numpy():
    sizes = {"tokens": 64, "key_heads": 2, "value_heads": 4, "batch": 3}
    made = hajax.plan(**{name: np.int64(size) for name, size in sizes.items()}, target=AVX512)
    assert made == hajax.plan(**sizes, target=AVX512)
    assert all(type(getattr(made.shape, name)) is int for name in sizes)


@pytest.mark.parametrize("value", [None, b"x"])
@pytest.mark.parametrize("call", [hajax.explain, report.summary])
def test_what_is_no_plan_is_not_explained(call, value):
    with pytest.raises(TypeError, match=rf"^plan: expected a Plan as hajax.plan gives it, got {type(value).__name__}$"):
        call(value)
