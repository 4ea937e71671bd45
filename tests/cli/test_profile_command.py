"""`hajax profile`: what its JSON holds, what people see, and that bad input is one line and exit code 2."""

import json
import sys

import pytest

from hajax import _profile_command, cli
from hajax.whole_model import MODELS, PROMPTS

pytestmark = pytest.mark.native


@pytest.fixture
def profile(monkeypatch, capsys):
    """Runs `hajax profile ARGUMENTS` in this process: (exit code, standard output, standard error)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hajax", "profile", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


AMOUNT = {"modelled_ms", "modelled_mj", "gm_bytes", "ddr_bytes", "launches"}


def test_json_holds_what_is_promised(profile):
    code, out, err = profile("--model-config", "qwen3.5-0.8b", "--tokens", "200, 64", "--target", "ascend310p3", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert set(report) == {
        "model", "parameters", "weights_gb", "memory_gb", "fits", "target", "schedule", "modelled", "notes", "prefills",
    }  # fmt: skip
    assert (report["model"], report["target"], report["schedule"], report["fits"]) == (
        "Qwen3.5-0.8B", "ascend310p3", "hajax", True,
    )  # fmt: skip
    assert report["weights_gb"] == pytest.approx(2 * report["parameters"] / 1e9)
    assert "not measured" in report["modelled"]
    assert [prefill["tokens"] for prefill in report["prefills"]] == [200, 64]
    for prefill in report["prefills"]:
        assert set(prefill) == {"tokens", "prompts", "schedule", "kinds", "layers", "kernels"} | AMOUNT
        for kind in prefill["kinds"].values():
            assert set(kind) == AMOUNT | {"time_share", "energy_share", "gm_bytes_share"}
        for share in ("time_share", "energy_share", "gm_bytes_share"):
            assert sum(kind[share] for kind in prefill["kinds"].values()) == pytest.approx(1)
        assert len(prefill["layers"]) == 24
        assert set(prefill["layers"][3]) == {"layer", "mixer", "feed_forward", "kinds"} | AMOUNT
        assert set(prefill["kernels"][0]) == {"layer", "name", "kind", "times", "bound", "by"} | AMOUNT
        assert {row["by"] for row in prefill["kernels"] if row["kind"] == "delta rule"} == {"emulator"}


def test_people_see_times_shares_layers_and_kernels(profile):
    code, out, _ = profile("--model-config", "Qwen3.5-0.8B", "--tokens", 64)
    assert code == 0
    for text in ("not measured on a device", "time to first token, ms", "share of energy", "busiest pipe", "delta rule"):
        assert text in out
    assert out.count("gated delta rule  MLP") == 18
    code, out, _ = profile("--model-config", "Qwen3.5-0.8B", "--tokens", "64,65")
    assert code == 0 and "busiest pipe" not in out


def test_what_does_not_fit_is_a_warning(profile):
    code, out, err = profile("--model-config", "Kimi-Linear-48B-A3B", "--tokens", 16, "--json")
    assert code == 0
    assert json.loads(out)["fits"] is False
    assert err.startswith("hajax: warning: Kimi-Linear-48B-A3B does not fit: 98.2 GB of fp16 weights, 25.8 GB of memory")
    assert len(err.splitlines()) == 1


def test_without_lengths_those_of_published_prompts_are_taken():
    lengths = _profile_command.parse_tokens(None)
    assert set(lengths) == {end for ends in PROMPTS.values() for end in ends}
    assert lengths[9813] == ("TriviaQA, shortest",)


def test_a_config_file_is_profiled_by_its_path(profile, tmp_path):
    config = {
        "model_type": "qwen3_5_text", "architectures": ["Qwen3_5ForCausalLM"], "vocab_size": 500, "hidden_size": 96,
        "intermediate_size": 200, "num_hidden_layers": 4, "full_attention_interval": 4, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "linear_key_head_dim": 32, "linear_value_head_dim": 32, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    for name in (path, tmp_path):
        code, out, _ = profile("--model-config", name, "--tokens", 70, "--json")
        assert code == 0
        assert json.loads(out)["model"] == str(name)
    path.write_text(json.dumps(config | {"linear_value_head_dim": 256}))
    code, _, err = profile("--model-config", path, "--tokens", 70)
    assert code == 2 and len(err.splitlines()) == 1
    assert "config.json" in err and "DeltaRule.value_dim: expected head dims of at most 128 on a chip, got 256" in err


@pytest.mark.parametrize(("arguments", "parts"), [
    (("--model-config", "Qwen4"), ("--model-config", *MODELS, "'Qwen4'")),
    (("--model-config", "no/such.json"), ("--model-config", "cannot read no/such.json")),
    (("--model-config", __file__), ("--model-config", "not valid JSON")),
    (("--model-config", "Qwen3.5-2B", "--tokens", "0"), ("--tokens", "1 to 131072", "'0'")),
    (("--model-config", "Qwen3.5-2B", "--tokens", "-5"), ("--tokens", "'-5'")),
    (("--model-config", "Qwen3.5-2B", "--tokens", "8,,9"), ("--tokens", "'8,,9'")),
    (("--model-config", "Qwen3.5-2B", "--tokens", "4k"), ("--tokens", "'4k'")),
    (("--model-config", "Qwen3.5-2B", "--tokens", "9" * 5000), ("--tokens",)),
    (("--model-config", "Qwen3.5-2B", "--tokens", ",".join(map(str, range(1, 99)))), ("--tokens", "at most 64 lengths, got 98")),
    (("--model-config", "Qwen3.5-2B", "--tokens", "8", "--target", "cpu"), ("target", "ascend310p1", "'cpu'")),
    (("--model-config", "Qwen3.5-2B", "--tokens", "8", "--schedule", "x"), ("schedule", "hajax", "'x'")),
    ((), ("--model-config",)),
])  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(profile, arguments, parts):
    code, out, err = profile(*arguments)
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1 and "Traceback" not in err
    for part in parts:
        assert part in err
