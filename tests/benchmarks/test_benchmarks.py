"""The benchmark programs on tiny settings: their JSON has what is promised, and an absent peer is named with the reason."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parents[2] / "benchmarks"
BLOCKED = ("torch", "onnxruntime", "transformers", "gguf", "llama_cpp")
CORE_ROW = {
    "peer", "mechanism", "dtype", "T", "Hk", "Hv", "D", "threads", "ms_median", "ms_min", "runs", "max_abs_err",
}  # fmt: skip
PREFILL_ROW = {
    "engine", "dtype", "tokens", "layers", "threads", "ms_median", "ms_min", "runs", "tokens_per_second", "delta_rule_share",
    "delta_layers_share", "delta_nongemm_share", "logits_max_abs", "logits_max_abs_diff", "same_next_token",
}  # fmt: skip
MACHINE = {"cpu", "isa_flags", "cores", "python", "versions", "date", "threads", "other_load_median"}


@pytest.fixture
def run(tmp_path):
    """Runs a program where the packages of BLOCKED cannot be imported, whatever this environment has; returns its JSON."""
    for name in BLOCKED:
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name}: kept out by the test')\n")
    environment = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_NUMPY_RANK_PROMOTION")}
    environment["PYTHONPATH"] = str(tmp_path)

    def start(program, *arguments):
        command = [sys.executable, str(PROGRAMS / program), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    return start


def report(process):
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.native
def test_backward_json(run):
    found = report(run("backward.py", "--json", "--cases", "20x16", "--ops", "gdn", "--runs", "1", "--threads", "1"))
    assert set(found) == {"machine", "rows", "missing"}
    hajax, jnp = found["rows"]
    assert (hajax["peer"], jnp["peer"], hajax["T"], hajax["Hv"], hajax["times_hajax"]) == ("hajax", "jnp", 20, 16, 1.0)
    for row in (hajax, jnp):
        assert row["temp_bytes"] > 0 and 0 < row["ms_min"] <= row["ms_median"]
        assert row["nmse"] < 1e-10


@pytest.mark.native
def test_cpu_core_json(run):
    peers = "hajax,hajax_xla,jnp_scan_solve,onnxruntime,vllm_cpu,transformers"
    found = report(run("cpu_core.py", "--json", "--cases", "70x16", "--runs", "1", "--threads", "1", "--peers", peers))
    assert set(found) == {"machine", "rows", "missing"}
    assert set(found["machine"]) >= MACHINE
    assert {(row["peer"], row["dtype"]) for row in found["rows"]} == {
        (peer, dtype) for peer in ("hajax", "hajax_xla", "jnp_scan_solve") for dtype in ("fp32", "bf16")
    }
    for row in found["rows"]:
        shares = {"gemm_gflop_s", "gemm_share"} if (row["peer"], row["dtype"]) == ("hajax", "fp32") else set()
        assert set(row) == CORE_ROW | {"gflop_s"} | shares
        assert (row["T"], row["Hk"], row["Hv"], row["D"], row["threads"], row["runs"]) == (70, 16, 16, 128, 1, 1)
        assert 0 < row["ms_min"] <= row["ms_median"]
        assert row["max_abs_err"] < (1e-5 if row["dtype"] == "fp32" else 1e-2)
    reasons = {absent["peer"]: absent["reason"] for absent in found["missing"]}
    assert set(reasons) == {"onnxruntime", "vllm_cpu", "transformers"}
    assert "onnxruntime: kept out by the test" in reasons["onnxruntime"]
    assert all("kept out by the test" in reason for reason in reasons.values())


@pytest.mark.native
def test_cpu_core_has_a_decay_per_channel(run):
    arguments = ("--mechanism", "kda", "--cases", "20x16", "--runs", "1", "--threads", "1", "--peers", "hajax,jnp_token_scan")
    found = report(run("cpu_core.py", "--json", *arguments))
    assert [(row["peer"], row["mechanism"], row["dtype"]) for row in found["rows"]] == [
        ("hajax", "kda", "fp32"), ("hajax", "kda", "bf16"),
    ]  # fmt: skip


@pytest.mark.native
def test_cpu_core_text_names_the_missing(run):
    process = run("cpu_core.py", "--cases", "16x32", "--runs", "1", "--peers", "hajax,onnxruntime")
    assert process.returncode == 0, process.stderr
    assert "T16 Hv32" in process.stdout
    assert "(1.00x)" in process.stdout
    assert "missing: onnxruntime: ImportError" in process.stdout


@pytest.mark.native
def test_model_prefill_json(run):
    found = report(run("model_prefill.py", "--json", "--tiny", "--layers", "4", "--tokens", "16,20", "--runs", "1"))
    assert set(found) == {"machine", "rows", "missing"}
    assert set(found["machine"]) >= MACHINE
    assert [(row["engine"], row["tokens"]) for row in found["rows"]] == [
        (engine, tokens) for tokens in (16, 20) for engine in ("hajax", "hajax_xla")
    ]
    for row in found["rows"]:
        assert set(row) == PREFILL_ROW
        assert row["layers"] == 4
        assert row["logits_max_abs_diff"] is None  # nobody to compare with
        assert row["delta_rule_share"] is not None and row["delta_nongemm_share"] is not None
    assert "transformers" in {absent["peer"] for absent in found["missing"]}
    assert all("kept out by the test" in absent["reason"] for absent in found["missing"])


@pytest.mark.native
def test_layer_pieces_json(run):
    found = report(run("layer_pieces.py", "--json", "--tokens", "1,40", "--runs", "2", "--threads", "1"))
    assert set(found) == {"machine", "rows", "missing"}
    assert [(row["piece"], row["tokens"], row["dtype"]) for row in found["rows"]] == [
        (piece, tokens, dtype)
        for tokens in (1, 40)
        for dtype in ("float32", "bfloat16")
        for piece in ("convolution", "gated norm")
    ]
    assert all(row["speedup"] > 0 and row["kernel_cpu_ms"] > 0 and row["xla_wall_ms"] > 0 for row in found["rows"])


@pytest.mark.native
def test_planner_choices_json(run):
    found = report(run("planner_choices.py", "--json", "--quick", "--turns", "1", "--fit"))
    assert {row["chunk"] for row in found["rows"]} == {16, 32, 64}
    assert sum(row["chosen"] for row in found["rows"]) == found["summary"]["places"] == 1
    assert min(row["over_best"] for row in found["rows"]) == 1
    assert found["fit"]["unit_ps"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--peers", "hajax,nobody"], "'nobody'"),
        (["--cases", "512x24"], "a multiple of 16, got '512x24'"),
        (["--threads", "0"], "got 0"),
    ],
)
def test_bad_arguments(run, arguments, words):
    process = run("cpu_core.py", *arguments)
    assert process.returncode == 2
    assert words in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.native
def test_mutations_json(run):
    found = report(run("mutations.py", "--json", "--kernels", "vector_add"))
    assert set(found) == {"machine", "rows", "missing"}
    assert {row["kind"] for row in found["rows"]} == {"flag", "buffer", "offset", "repeat"}
    for row in found["rows"]:
        assert set(row) == {"kernel", "kind", "total", "caught", "by_check", "by_result", "survivors"}
        assert row["caught"] == row["by_check"] + row["by_result"] == row["total"] > 2


@pytest.mark.native
def test_emulator_speed_json(run):
    found = report(run("emulator_speed.py", "--json", "--size", "48", "--runs", "1"))
    assert [row["mode"] for row in found["rows"]] == ["checked", "fast", "counts"]
    for row in found["rows"]:
        assert row["counts_equal"] is True
        assert row["gmac_per_s"] > 0


@pytest.mark.native
@pytest.mark.parametrize(("program", "arguments", "named"), [
    ("mutations.py", ("--kernels", "no_such"), "--kernels"), ("emulator_speed.py", ("--size", "17"), "--size"),
    ("emulator_speed.py", ("--runs", "0"), "--runs"),
])  # fmt: skip
def test_wrong_settings_of_the_emulators_benchmarks_are_named(run, program, arguments, named):
    done = run(program, *arguments)
    assert done.returncode == 2
    assert f"{named}: expected" in done.stderr


@pytest.mark.native
def test_decode_json(run):
    found = report(run("decode.py", "--json", "--quick", "--runs", "1", "--threads", "1"))
    assert set(found) == {"machine", "rows", "missing"}
    assert {row["peer"] for row in found["rows"]} == {"hajax", "hajax_layers", "hajax_separate", "library", "library_separate"}
    for row in found["rows"]:
        assert (row["B"], row["Hv"], row["threads"]) == (1, 32, 1)
        assert row["state_gb_s"] == pytest.approx(2 * 2**21 / row["us_median"] / 1e3, rel=0.02)  # 2 MiB read and written
        assert row["share"] == pytest.approx(row["state_gb_s"] / row["copy_gb_s"], rel=0.02, abs=0.02)
    assert [absent["peer"] for absent in found["missing"]] == ["onnxruntime"]


@pytest.mark.native
def test_scaling_json(run):
    found = report(run("scaling.py", "--json", "--quick"))
    assert [(row["question"], row["T"]) for row in found["rows"] if row["mechanism"] == "kda"] == [
        ("tokens", 128), ("tokens", 256), ("one_head", 128),
    ]  # fmt: skip
    assert all(row["ms"] > 0 and row["efficiency"] > 0 for row in found["rows"])


def test_the_guard_names_what_is_worse(monkeypatch):
    monkeypatch.syspath_prepend(str(PROGRAMS))
    monkeypatch.setenv("NPROC", "1")
    for name in ("HAJAX_CPU_THREADS", "HAJAX_CACHE"):  # set by the program for itself
        monkeypatch.setenv(name, "1")
    import guard

    rows = [{"case": name, "kind": "ratio", "value": 0.5} for name in ("a", "b", "c")]
    worse = guard.compare(rows, {"ratio": {"a": 0.3, "b": 0.2}})
    assert [row["ok"] for row in rows] == [True, False, True]  # twice the stored ratio is allowed; what has none is not compared
    assert worse == ["WORSE: ratio of b is 0.5, allowed 0.4 (stored 0.2)"]
    stored = json.loads((PROGRAMS / "guard.json").read_text())
    assert set(stored) == {"ratio", "instructions"}
    assert all(set(cases) == set(guard.CASES) for cases in stored.values())
