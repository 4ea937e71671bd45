"""The command line: what it prints, and that whatever goes wrong is one line and exit code 2."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes  # noqa: F401 (numpy learns bfloat16 from it)
import numpy as np
import pytest

from hajax import cli

DEMO = Path(__file__).parents[2] / "models" / "demo"


@pytest.fixture
def hajax(monkeypatch, capsys):
    """Runs `hajax ARGUMENTS` in this process: (exit code, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hajax", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def one_line_error(result, *parts):
    code, _, error = result
    assert code == 2, error
    assert "Traceback" not in error
    lines = error.strip().splitlines()
    assert len(lines) == 1, error
    for part in parts:
        assert part in lines[0], f"{part!r} not in {lines[0]!r}"


def copy_of_demo(folder):
    shutil.copytree(DEMO, folder)
    return folder


def test_generate_reports_everything_that_json_promises(hajax):
    code, out, _ = hajax("generate", "--prompt", "It was a fine morning", "--max-new-tokens", 4, "--json")
    assert code == 0
    result = json.loads(out)
    expected = {
        "text", "prompt_tokens", "new_tokens", "prefill_seconds", "prefill_tokens_per_second", "decode_tokens_per_second",
        "backend", "implementation", "plan", "peak_rss_mib",
    }  # fmt: skip
    assert set(result) == expected
    assert result["backend"] == "jax"
    assert result["new_tokens"] == 4
    assert result["prompt_tokens"] > 0
    assert result["implementation"] == "cpu"
    assert "cpu_fused" in result["plan"]
    assert result["prefill_tokens_per_second"] == pytest.approx(result["prompt_tokens"] / result["prefill_seconds"])


def test_both_implementations_generate_the_same_greedy_text(hajax):
    texts = []
    for implementation in ("cpu", "xla"):
        arguments = ("--max-new-tokens", 12, "--dtype", "float32", "--implementation", implementation, "--json")
        code, out, _ = hajax("generate", "--prompt", "She was", *arguments)
        assert code == 0
        texts.append(json.loads(out)["text"])
    assert texts[0] == texts[1]
    assert texts[0].strip()


@pytest.mark.parametrize(("arguments", "chip"), [((), "ascend310p1"), (("--target", "ascend310p3"), "ascend310p3")])
def test_the_emulated_chip_is_the_one_that_is_named(hajax, arguments, chip):
    code, out, _ = hajax(
        "generate", "--prompt", "She was", "--max-new-tokens", 1, "--implementation", "sim", *arguments, "--json"
    )
    result = json.loads(out)
    assert (code, result["implementation"]) == (0, "sim")
    assert f" on {chip}-" in result["plan"]


def test_text_streams_to_standard_output_and_the_report_to_standard_error(hajax):
    code, out, error = hajax("generate", "--prompt", "She was", "--max-new-tokens", 3)
    assert code == 0
    assert out.strip()
    assert "prefill" not in out
    assert "tokens/s" in error
    assert "plan:" in error


def test_a_prompt_may_come_from_a_file_or_standard_input(hajax, tmp_path, monkeypatch):
    (tmp_path / "prompt.txt").write_text("She was", encoding="utf-8")
    named = hajax("generate", "--prompt-file", tmp_path / "prompt.txt", "--max-new-tokens", 3)
    given = hajax("generate", "--prompt", "She was", "--max-new-tokens", 3)
    assert named[:2] == given[:2]
    piped = subprocess.run(
        [sys.executable, "-m", "hajax.cli", "generate", "-", "--max-new-tokens", "3"],
        input="She was", capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert piped.returncode == 0
    assert piped.stdout == given[1]


def test_a_seed_repeats_a_draw(hajax):
    arguments = ("generate", "--prompt", "She was", "--max-new-tokens", 8, "--temperature", 1.0, "--top-k", 50, "--top-p", 0.9)
    first, again, other = (hajax(*arguments, "--seed", seed)[1] for seed in (3, 3, 4))
    assert first == again
    assert first != other


def test_chat_wraps_the_prompt(hajax):
    plain = json.loads(hajax("generate", "--prompt", "Hello", "--max-new-tokens", 1, "--json")[1])
    chat = json.loads(hajax("generate", "--prompt", "Hello", "--max-new-tokens", 1, "--json", "--chat")[1])
    assert chat["prompt_tokens"] > plain["prompt_tokens"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--prompt", "x", "--model", "/nowhere/at/all"), ("/nowhere/at/all", "no such folder")),
        (("--prompt", ""), ("prompt", "token")),
        ((), ("--prompt",)),
        (("--prompt", "x", "--prompt-file", "y"), ("--prompt",)),
        (("--prompt-file", "/nowhere/prompt.txt"), ("/nowhere/prompt.txt",)),
        (("--prompt", "x", "--implementation", "cuda"), ("implementation", "cpu", "xla", "cuda")),
        (("--prompt", "x", "--target", "ascend310p3"), ("target: expected None unless implementation is 'sim'", "ascend310p3")),
        (("--prompt", "x", "--implementation", "cpu", "--target", "ascend310p3"), ("target: expected None", "'cpu'")),
        (("--prompt", "x", "--implementation", "sim", "--target", "tpu"), ("target: expected", "ascend310p3", "'tpu'")),
        (("--prompt", "x", "--dtype", "int8"), ("dtype", "float32", "int8")),
        (("--prompt", "x", "--temperature", "-1"), ("temperature", "-1")),
        (("--prompt", "x", "--temperature", "nan"), ("temperature", "nan")),
        (("--prompt", "x", "--top-p", "1.5"), ("top_p", "1.5")),
        (("--prompt", "x", "--top-k", "0"), ("top_k", "0")),
        (("--prompt", "x", "--seed", "-3"), ("seed", "-3")),
        (("--prompt", "x", "--max-new-tokens", "5000"), ("max_position_embeddings", "4096")),
        (("extra", "--prompt", "x"), ("extra",)),
    ],
)
def test_a_bad_argument_is_one_line(hajax, arguments, parts):
    one_line_error(hajax("generate", *arguments), *parts)


def test_a_prompt_that_is_not_text_is_one_line(hajax, tmp_path):
    (tmp_path / "prompt.bin").write_bytes(b"\xff\xfe\x00")
    one_line_error(hajax("generate", "--prompt-file", tmp_path / "prompt.bin"), "UTF-8", "prompt.bin")


def test_a_prompt_past_the_models_length_is_one_line(hajax, tmp_path):
    (tmp_path / "long.txt").write_text("the morning " * 5000, encoding="utf-8")
    one_line_error(hajax("generate", "--prompt-file", tmp_path / "long.txt"), "max_position_embeddings", "4096")


def test_a_truncated_checkpoint_is_one_line(hajax, tmp_path):
    folder = copy_of_demo(tmp_path / "model")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    one_line_error(hajax("generate", "--model", folder, "--prompt", "x"), "model.safetensors")


@pytest.mark.parametrize(
    ("remove", "parts"),
    [("config.json", ("config.json",)), ("model.safetensors", ("safetensors",)), ("tokenizer.json", ("tokenizer.json",))],
)
def test_a_missing_file_is_one_line(hajax, tmp_path, remove, parts):
    folder = copy_of_demo(tmp_path / "model")
    (folder / remove).unlink()
    one_line_error(hajax("generate", "--model", folder, "--prompt", "x"), *parts)


def test_an_unknown_model_type_is_one_line(hajax, tmp_path):
    folder = copy_of_demo(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    one_line_error(hajax("generate", "--model", folder, "--prompt", "x"), "model_type", "qwen3_5", "gpt2")


def test_debug_shows_the_traceback(hajax):
    code, _, error = hajax("generate", "--prompt", "x", "--model", "/nowhere/at/all", "--debug")
    assert code == 2
    assert "Traceback" in error
    assert "FileNotFoundError" in error


@pytest.mark.parametrize("arguments", [("nonsense",), ("generate", "--max-new-tokens", 0), ("generate", "--nonsense")])
def test_what_the_parser_refuses_is_one_line(hajax, arguments):
    one_line_error(hajax(*arguments), str(arguments[-1] if arguments[-1] != 0 else "max-new-tokens"))


def test_the_version_is_printed(hajax):
    import hajax as package

    assert hajax("--version")[:2] == (0, package.__version__ + "\n")


def test_weights_with_nan_are_one_line(hajax, tmp_path):
    from safetensors.numpy import load_file, save_file

    folder = copy_of_demo(tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.norm.weight"][:] = np.nan
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    one_line_error(hajax("generate", "--model", folder, "--prompt", "x", "--max-new-tokens", 3), "logits", "NaN")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HAJAX_CPU_THREADS", "many"),
        ("HAJAX_CPU_THREADS", "99999999999"),
        ("HAJAX_CPU_ISA", "mmx"),
        ("HAJAX_CACHE", "maybe"),
        ("HAJAX_CPU_BF16_DOT", "2"),
    ],
)
def test_a_setting_of_the_environment_is_checked(hajax, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    one_line_error(hajax("check", "T=33 Hv=2", "--implementation", "cpu"), name, value)


def test_doctor_says_what_is_there(hajax):
    code, out, _ = hajax("doctor", "--json")
    facts = json.loads(out)
    assert code == 0
    assert facts["ok"]
    assert facts["libraries"]["libhajax_cpu"]["loaded"]
    code, out, _ = hajax("doctor")
    assert code == 0
    assert "libhajax_cpu" in out


def test_doctor_says_why_a_library_is_not_used(hajax, monkeypatch, tmp_path):
    (tmp_path / "lib.so").write_bytes(b"not a library")
    monkeypatch.setenv("HAJAX_LIBRARY", str(tmp_path / "lib.so"))
    code, out, _ = hajax("doctor", "--json")
    facts = json.loads(out)
    assert code == 1
    assert not facts["ok"]
    assert "lib.so" in facts["libraries"]["libhajax_cpu"]["why"]


def test_check_runs_a_case(hajax):
    code, out, _ = hajax("check", "T=70 Hv=2", "--json")
    assert code == 0
    results = json.loads(out)
    assert [r["implementation"] for r in results] == ["cpu", "xla"]
    assert all(0 < r["output_nmse"] < 1e-11 for r in results)
    one_line_error(hajax("check", "T=70 Hx=2"), "Hx=2")
    one_line_error(hajax("check", "Hk=2"), "T=")
    one_line_error(hajax("check", "T=70 B=2 lengths=150,70"), "case: expected lengths from 0 to T=70, got 150")
    one_line_error(hajax("check", "T=70 cu=0,80"), "case: expected cu to ascend from 0 to T=70, got 0,80")


def test_cache_shows_and_clears_plans(hajax, monkeypatch, tmp_path):
    monkeypatch.setenv("HAJAX_CACHE_DIR", str(tmp_path / "own"))
    assert hajax("check", "T=77 Hv=2", "--implementation", "cpu")[0] == 0
    code, out, _ = hajax("cache", "show")
    assert code == 0
    assert "T=77" in out
    code, out, _ = hajax("cache", "clear")
    assert code == 0
    assert not out.startswith("0 ")
    assert json.loads(hajax("cache", "show", "--json")[1])["entries"] == []


@pytest.mark.slow
@pytest.mark.parametrize("pause", [None, 1.0, 1.5, 2.5], ids=["generating", "1 s", "1.5 s", "2.5 s"])
def test_ctrl_c_ends_it_at_once_and_cleanly(pause):
    command = [sys.executable, "-m", "hajax.cli", "generate", "--prompt", "She was", "--max-new-tokens", "4000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if pause is None:
            assert process.stdout is not None
            assert process.stdout.read(1)  # it has begun to print
        else:
            time.sleep(pause)
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, error = process.communicate(timeout=30)
        assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert "Traceback" not in error
