"""The native library absent, foreign or of another abi: a reason in one line; the operator then falls back or refuses."""

import re
import subprocess
import sys

import numpy as np
import pytest
from problem import environment, expected_of, kernel_arrays, plan_of, run_kernel

from hajax import abi, backends
from hajax.backends import library as library_module
from hajax.conformance import inputs, nmse, parse
from hajax.plans import to_bytes


@pytest.fixture
def named(monkeypatch):
    """Names another library file for this test; libraries already open stay so."""
    return lambda path: monkeypatch.setenv("HAJAX_LIBRARY", str(path))


def test_an_absent_library_is_named(tmp_path, named):
    named(tmp_path / "none.so")
    with pytest.raises(backends.LibraryError, match=r"none\.so: no such file \(HAJAX_LIBRARY names it\)"):
        backends.open_library()


def test_what_is_no_library_is_named(tmp_path, named):
    (tmp_path / "text.so").write_text("not a library")
    named(tmp_path / "text.so")
    with pytest.raises(backends.LibraryError, match=r"text\.so: cannot be loaded"):
        backends.open_library()


def test_another_library_is_named(named):
    import _cffi_backend

    named(_cffi_backend.__file__)
    with pytest.raises(backends.LibraryError, match=r"cannot be loaded .*hajax_abi_digest"):
        backends.open_library()


def test_a_library_of_another_abi_is_refused(monkeypatch):
    path = library_module.library_path()
    monkeypatch.setattr(abi, "digest", lambda: "0" * 64)
    with pytest.raises(
        backends.LibraryError, match=r"expected to be built with hajax/abi 000000000000 .*, got [0-9a-f]{12}; rebuild it"
    ):
        library_module.Library(path)


SCRIPT = """
import sys, warnings
import jax.numpy as jnp, hajax
x = jnp.ones((1, 3, 1, 8))
g = -jnp.ones((1, 3, 1))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        for _ in range(2):
            output, _ = hajax.gated_delta_rule(x, x, x, g, -g, implementation=sys.argv[1] or None)
        print("ran", len([w for w in caught if "native CPU kernels are not used" in str(w.message)]))
    except hajax.backends.LibraryError as error:
        print("refused", error)
"""


@pytest.mark.parametrize(("implementation", "outcome"), [("", "ran 1"), ("xla", "ran 0"), ("cpu", "refused")])
def test_without_a_library_the_default_warns_once_and_runs_and_cpu_refuses(implementation, outcome, tmp_path):
    variables = environment(HAJAX_LIBRARY=tmp_path / "none.so")
    script = SCRIPT.replace("import jax.numpy", "import hajax.backends, jax.numpy")
    done = subprocess.run(
        [sys.executable, "-c", script, implementation], env=variables, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(outcome)


def test_the_target_is_the_cpu_at_hand():
    target = backends.cpu_target()
    assert target.isa == backends.available_isas()[-1]
    assert target.threads >= 1
    assert 1 << 12 <= target.l1_bytes < target.l2_bytes <= 1 << 30


@pytest.mark.parametrize("isa", backends.available_isas())
def test_an_isa_has_its_panel(isa, monkeypatch):
    monkeypatch.setenv("HAJAX_CPU_ISA", isa)
    target = backends.cpu_target()
    assert target.isa == isa
    assert target.panel == backends.open_library().lib.hajax_cpu_panel(abi.table("isas")[isa]) > 0


def test_a_plan_of_another_abi_is_refused_at_every_call():
    case = parse("T=5")
    plan = plan_of(case)
    data = bytearray(to_bytes(plan))
    data[8] ^= 1
    with pytest.raises(backends.LibraryError, match=r"bad_plan: plan: abi_digest: expected .* \(this library's\), got"):
        backends.execute(
            bytes(data), kernel_arrays(case, inputs(case)), scale=1.0, l2norm_eps=None, output_dtype=np.float32,
            scratch_bytes=plan.launch.scratch_bytes,
        )  # fmt: skip


def test_too_little_scratch_is_refused():
    case = parse("T=5")
    with pytest.raises(backends.LibraryError, match="bad_call: call: scratch_bytes: expected at least"):
        backends.execute(
            to_bytes(plan_of(case)), kernel_arrays(case, inputs(case)), scale=1.0, l2norm_eps=None, output_dtype=np.float32,
            scratch_bytes=64,
        )  # fmt: skip


def refused_call(error, message, case="T=5 Hv=2", plan=None, **changes):
    parsed = parse(case)
    made = plan_of(parsed)
    arrays = kernel_arrays(parsed, inputs(parsed)) | changes.pop("arrays", {})
    scratch = made.launch.workers * made.launch.scratch_bytes
    options = {"scale": 1.0, "l2norm_eps": None, "output_dtype": np.float32, "scratch_bytes": scratch}
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        backends.execute(to_bytes(made) if plan is None else plan, arrays, **options | changes)


@pytest.mark.parametrize(("name", "array", "message"), [
    ("query", None, "query: expected float32[1, 5, 1, 16] as the plan says, got None"),
    ("value", None, "value: expected float32[B, T, 2, 16] as the plan says, got None"),
    ("bounds", None, "bounds: expected int32[1, N+1] as the plan says, got None"),
    ("log_decay", None, "log_decay: expected float32[1, 5, 2] as the plan says, got None"),
    ("beta", np.zeros(3), "beta: expected float32[1, 5, 2] as the plan says, got float64[3]"),
    ("key", np.zeros((1, 4, 1, 16), np.float32), "key: expected float32[1, 5, 1, 16] as the plan says, got float32[1, 4, 1, 16]"),
])  # fmt: skip
def test_arrays_that_do_not_fit_the_plan_are_refused_by_name(name, array, message):
    refused_call(ValueError, message, arrays={name: array})


def test_other_arguments_are_refused_by_name():
    refused_call(TypeError, "scale: expected a number, got 'a'", scale="a")
    refused_call(TypeError, "l2norm_eps: expected a number, got 'a'", l2norm_eps="a")
    refused_call(ValueError, "output_dtype: expected float32 as the plan says, got float16", output_dtype=np.float16)
    plan = plan_of(parse("T=5"))
    refused_call(TypeError, "plan: expected bytes as hajax.plans.to_bytes makes them, got Plan", plan=plan)
    message = "bad_plan: plan: expected the bytes of an hj_cpu_plan, got 3 others"
    refused_call(backends.LibraryError, message, plan=b"abc")


def test_without_a_decay_its_array_may_be_absent():
    case = parse("T=5 op=delta")
    arrays = kernel_arrays(case, inputs(case))
    del arrays["log_decay"]
    plan = plan_of(case)
    output, _, _ = backends.execute(
        to_bytes(plan), arrays, scale=case.key_dim**-0.5, l2norm_eps=None, output_dtype=np.float32,
        scratch_bytes=plan.launch.workers * plan.launch.scratch_bytes,
    )  # fmt: skip
    assert nmse(output, expected_of(case)[0]) < 1e-11


def test_the_bf16_dot_product_is_as_the_environment_says(monkeypatch):
    variable = "HAJAX_CPU_BF16_DOT"
    monkeypatch.setenv("HAJAX_CPU_ISA", "baseline")  # which has none, on any CPU
    monkeypatch.setenv(variable, "0")
    assert backends.cpu_target().bf16_dot is False
    monkeypatch.setenv(variable, "1")
    message = r"^HAJAX_CPU_BF16_DOT: expected 0, as this CPU has no bf16 dot product with baseline, got '1'$"
    with pytest.raises(ValueError, match=message):
        backends.cpu_target()
    for value in ("2", "yes", ""):
        monkeypatch.setenv(variable, value)
        with pytest.raises(ValueError, match=rf"^HAJAX_CPU_BF16_DOT: expected 0 or 1, got '{value}'$"):
            backends.cpu_target()
        with pytest.raises(ValueError, match=rf"^HAJAX_CPU_BF16_DOT: expected 0 or 1, got '{value}'$"):
            library_module._bf16_dot(True, "avx512")
    for value in ("0", "1"):
        monkeypatch.setenv(variable, value)
        assert library_module._bf16_dot(True, "avx512") is (value == "1")
    monkeypatch.delenv(variable)
    monkeypatch.setenv("HAJAX_CPU_ISA", "tiles")  # which are made of nothing else
    assert backends.cpu_target().bf16_dot is True


def test_inputs_are_left_as_they_were():
    case = parse("T=70 Hv=2")
    arrays = inputs(case)
    before = {name: x.tobytes() for name, x in arrays.items()}
    run_kernel(case, arrays)
    assert {name: x.tobytes() for name, x in arrays.items()} == before
