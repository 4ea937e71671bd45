"""Folders of weights: what is written reads back, both published layouts read the same, and what is broken is named."""

import dataclasses
import json
import logging
import os
import re
import shutil
from pathlib import Path

import hajax.models
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hajax.models import _safetensors, qwen3_5
from tiny_models import TINY, random_params

TIED = dataclasses.replace(TINY, tie_word_embeddings=True)
SQUARE = dataclasses.replace(  # of few shapes: `init` compiles one program a shape
    TINY,
    vocab_size=32,
    intermediate_size=32,
    layer_types=TINY.layer_types[:2],
    num_attention_heads=1,
    num_key_value_heads=1,
    linear_num_key_heads=1,
    linear_num_value_heads=1,
)


def tensors_of(folder):
    return {name: _safetensors.read(entry) for name, entry in _safetensors.find(folder).items()}


def rewrite(folder, change, target):
    """A copy of a folder whose tensors went through `change`."""
    shutil.copytree(folder, target)
    _safetensors.write(str(target / "model.safetensors"), change(tensors_of(folder)), {})
    return target


def equal(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_saved_weights_load_bit_for_bit(params, folder):
    config = qwen3_5.Config.from_json(folder)
    assert config == TINY
    equal(qwen3_5.load_params(folder, config), params)
    (folder / "plain").touch()
    modes = {path.stat().st_mode for path in folder.iterdir()}
    (folder / "plain").unlink()
    assert len(modes) == 1, "files have the permissions that any new file has"
    assert sorted(os.listdir(folder)) == ["config.json", "generation_config.json", "model.safetensors"]


def test_the_file_holds_what_the_format_says(params, folder):
    """By hand: 8 bytes of header length, the header as JSON, then each tensor's bytes where the header says."""
    data = (folder / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    assert header.pop("__metadata__") == {"format": "pt"}
    ours = tensors_of(folder)
    assert header.keys() == ours.keys()
    for name, tensor in ours.items():
        fields = header[name]
        assert (fields["dtype"], fields["shape"]) == ("F32", list(tensor.shape))
        assert data[start:][slice(*fields["data_offsets"])] == tensor.tobytes()
    assert ours["model.layers.0.linear_attn.conv1d.weight"].shape == (TINY.conv_dim, 1, 4)
    np.testing.assert_array_equal(ours["model.embed_tokens.weight"], params.embed)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_arrays_of_any_strides_are_written_as_they_look(tmp_path, dtype):
    base = np.arange(24).reshape(4, 6).astype(dtype)
    given = {"turned": base.T, "every other": base[:, ::2], "scalar": base[1, 1].reshape(()), "empty": base[:0]}
    _safetensors.write(str(tmp_path / "model.safetensors"), given, {})
    found = tensors_of(tmp_path)
    equal(found, given)
    assert {tensor.dtype for tensor in found.values()} == {np.dtype(dtype)}


def test_reading_tensor_by_tensor_holds_one_at_a_time(tmp_path):
    given = {f"t{index}": np.full(1 << 20, index, np.float32) for index in range(16)}
    _safetensors.write(str(tmp_path / "model.safetensors"), given, {})
    del given
    entries = _safetensors.find(tmp_path)
    total = sum(entry.nbytes for entry in entries.values())
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    except OSError:
        pytest.skip("needs a kernel that resets the peak of resident memory")
    before = peak_bytes()
    assert [_safetensors.read(entries[f"t{index}"])[-1] for index in range(16)] == list(range(16))
    assert peak_bytes() - before < total / 4


def peak_bytes():
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])


def test_norms_are_stored_as_the_offset_from_one_and_the_delta_net_norm_as_it_is(tmp_path):
    qwen3_5.save(tmp_path, qwen3_5.init(SQUARE, jax.random.key(0)), SQUARE)
    stored = tensors_of(tmp_path)
    assert (stored["model.norm.weight"] == 0).all()
    assert (stored["model.layers.1.self_attn.q_norm.weight"] == 0).all()
    assert (stored["model.layers.0.linear_attn.norm.weight"] == 1).all()


def test_saving_in_bfloat16_rounds_once_and_pins_the_decay(params, tmp_path):
    qwen3_5.save(tmp_path, params, TINY, dtype=jnp.bfloat16)
    stored = tensors_of(tmp_path)
    kinds = {name: tensor.dtype.name for name, tensor in stored.items()}
    assert kinds["model.embed_tokens.weight"] == kinds["model.norm.weight"] == "bfloat16"
    assert kinds["model.layers.0.linear_attn.A_log"] == kinds["model.layers.0.linear_attn.norm.weight"] == "float32"
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    read = qwen3_5.load_params(tmp_path, TINY)
    assert read.embed.dtype == jnp.bfloat16
    assert read.norm.dtype == jnp.float32  # norms and gate constants are wide whatever the model's dtype
    equal(read.embed, params.embed.astype(jnp.bfloat16))
    again = tmp_path / "again"
    qwen3_5.save(again, read, TINY, dtype=jnp.bfloat16)
    assert (again / "model.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_dtype_asked_for_is_that_of_the_matrices(folder, dtype):
    model = hajax.models.load(folder, dtype)
    assert model.dtype == dtype
    assert {leaf.dtype.name for leaf in jax.tree.leaves(model.params)} == {dtype, "float32"}


def test_the_multimodal_layout_reads_the_same_and_says_what_it_skips(params, folder, tmp_path, caplog):
    def wrap(tensors):
        renamed = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in tensors.items()}
        visual = {"model.visual.patch_embed.weight": np.zeros(3, ml_dtypes.bfloat16), "mtp.fc.weight": np.zeros(2, np.float32)}
        return renamed | visual

    target = rewrite(folder, wrap, tmp_path / "multimodal")
    text = json.loads((folder / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({"model_type": "qwen3_5", "text_config": text}))
    with caplog.at_level(logging.WARNING, "hajax.models"):
        model = hajax.models.load(target)
    equal(model.params, params)
    assert model.config == TINY
    assert [record.getMessage() for record in caplog.records] == [
        f"{target}: skipped 1 vision, 1 multi-token prediction tensors (a text model needs none of them)"
    ]


def test_a_tied_head_is_not_stored_and_a_stored_copy_is_skipped(tmp_path, caplog):
    tied = random_params(TIED, 1)
    qwen3_5.save(tmp_path / "tied", tied, TIED)
    assert "lm_head.weight" not in tensors_of(tmp_path / "tied")
    both = rewrite(tmp_path / "tied", lambda t: t | {"lm_head.weight": t["model.embed_tokens.weight"]}, tmp_path / "both")
    equal(qwen3_5.load_params(both, TIED), tied)
    assert "1 tied lm_head" in caplog.text


def shard(folder, target):
    """A sharded copy: three files behind an index."""
    shutil.copytree(folder, target)
    (target / "model.safetensors").unlink()
    tensors = tensors_of(folder)
    names = [f"model-0000{part}-of-00003.safetensors" for part in (1, 2, 3)]
    places = {tensor: names[place % 3] for place, tensor in enumerate(sorted(tensors))}
    for name in names:
        _safetensors.write(str(target / name), {t: tensors[t] for t, place in places.items() if place == name}, {})
    (target / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return target, names


def test_shards_behind_an_index_read_the_same(params, folder, tmp_path):
    target, _ = shard(folder, tmp_path / "sharded")
    equal(qwen3_5.load_params(target, TINY), params)


def test_a_half_copied_set_of_shards_names_the_absent_file(folder, tmp_path):
    target, names = shard(folder, tmp_path / "sharded")
    (target / names[1]).unlink()
    with pytest.raises(FileNotFoundError, match=f"1 of 3 shards that .* names are absent: {names[1]}"):
        hajax.models.load(target)


def test_an_index_that_does_not_fit_its_shards_is_refused(folder, tmp_path):
    target, names = shard(folder, tmp_path / "sharded")
    index = target / "model.safetensors.index.json"
    described = json.loads(index.read_text())
    described["weight_map"]["model.nowhere"] = names[0]
    index.write_text(json.dumps(described))
    with pytest.raises(ValueError, match=f"{names[0]}: expected tensor 'model.nowhere'"):
        hajax.models.load(target)
    for text in ("{}", "[]", "{", '{"weight_map": {"a": "../elsewhere"}}', '{"weight_map": 3}'):
        index.write_text(text)
        with pytest.raises(ValueError, match=r"index\.json: expected a JSON object with a weight_map"):
            hajax.models.load(target)


def test_saving_over_shards_replaces_them(params, folder, tmp_path):
    target, _ = shard(folder, tmp_path / "sharded")
    other = random_params(TINY, 9)
    qwen3_5.save(target, other, TINY)
    equal(qwen3_5.load_params(target, TINY), other)


@pytest.mark.parametrize("keep", [0, 5, 100, -1, -4000])
def test_a_truncated_file_is_named(folder, tmp_path, keep):
    target = tmp_path / "truncated"
    shutil.copytree(folder, target)
    path = target / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"model\.safetensors: truncated"):
        hajax.models.load(target)


@pytest.mark.parametrize(
    "header", [b"{", b"[]", b'{"a": 1}', b'{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}', b"\xff\xfe"]
)
def test_a_broken_header_is_named(tmp_path, header):
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(64))
    with pytest.raises(
        ValueError, match=r"model\.safetensors: truncated or damaged: expected a safetensors header .* got \d+ bytes"
    ):
        _safetensors.find(tmp_path)


QUERY = "model.layers.1.self_attn.q_proj.weight"
BROKEN = {
    "missing": (lambda t: {n: x for n, x in t.items() if n != QUERY}, f"missing tensor '{QUERY}'$"),
    "several missing": (lambda t: {n: x for n, x in t.items() if "self_attn" not in n}, "missing tensor .* and 5 more$"),
    "unexpected": (lambda t: t | {"model.layers.9.x": np.zeros(1, np.float32)}, "unexpected tensor 'model.layers.9.x'$"),
    "shape": (
        lambda t: t | {QUERY: t[QUERY][:-1]},
        rf"model\.safetensors: {QUERY}: expected shape \[128, 32\] as config.json says, got \[127, 32\]",
    ),
    "rank": (lambda t: t | {QUERY: t[QUERY].reshape(-1)}, r"expected shape \[128, 32\] as config.json says, got \[4096\]"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_tensors_that_do_not_fit_the_config_are_named(folder, tmp_path, case):
    change, message = BROKEN[case]
    with pytest.raises(ValueError, match=message):
        hajax.models.load(rewrite(folder, change, tmp_path / "broken"))


OTHER_DTYPES = {"F64": np.float64, "I64": np.int64, "U8": np.uint8, "BOOL": np.bool_, "F8_E4M3": ml_dtypes.float8_e4m3fn}


@pytest.mark.parametrize("name", OTHER_DTYPES)
def test_a_dtype_that_no_model_has_is_named(folder, tmp_path, name):
    target = rewrite(folder, lambda t: t | {QUERY: t[QUERY].astype(OTHER_DTYPES[name])}, tmp_path / "quantised")
    with pytest.raises(ValueError, match=rf"model\.safetensors: {QUERY}: expected dtype F32, F16, BF16, got {name}"):
        hajax.models.load(target)


def test_folders_that_are_none_are_named(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Qwen/Qwen3\.5-0\.8B: no such folder .* nothing is downloaded"):
        hajax.models.load("Qwen/Qwen3.5-0.8B")
    with pytest.raises(FileNotFoundError, match=r"config\.json: not a folder"):
        hajax.models.load(folder / "config.json")
    with pytest.raises(FileNotFoundError, match=r"config\.json: no such file"):
        hajax.models.load(tmp_path)
    shutil.copy(folder / "config.json", tmp_path)
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(FileNotFoundError, match=r"expected model\.safetensors or .*, found pytorch_model\.bin"):
        hajax.models.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(ValueError, match="expected one of qwen3_5, qwen3_5_text, kimi_linear, bailing_hybrid, got 'llama'"):
        hajax.models.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": []}))
    with pytest.raises(ValueError, match=r"model_type: expected one of qwen3_5, .*, got \[\]"):
        hajax.models.load(tmp_path)
    with pytest.raises(ValueError, match="dtype: expected None or one of float32, bfloat16, float16, got 'int8'"):
        hajax.models.load(folder, "int8")


@pytest.mark.parametrize(
    ("change", "message"),
    [({"hidden_size": 64}, "expected shape"), ({"layer_types": ("full_attention",)}, "expected 14 tensors")],
)
def test_weights_that_do_not_fit_are_not_saved(params, tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        qwen3_5.save(tmp_path / "out", params, dataclasses.replace(TINY, **change))
    assert os.listdir(tmp_path / "out") == []


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(params, tmp_path, monkeypatch):
    qwen3_5.save(tmp_path, params, TINY)
    before = (tmp_path / "model.safetensors").read_bytes()

    def interrupted(tensors, path, metadata):
        Path(path).write_bytes(before[:100])
        raise KeyboardInterrupt

    monkeypatch.setattr("safetensors.numpy.save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        qwen3_5.save(tmp_path, params, TINY)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["config.json", "generation_config.json", "model.safetensors"]


def test_loaded_weights_outlive_their_files(folder, tmp_path):
    target = tmp_path / "gone"
    shutil.copytree(folder, target)
    params = qwen3_5.load_params(target, TINY)
    (target / "model.safetensors").write_bytes(b"")
    assert np.isfinite(params.embed).all()


def test_the_progress_bar_counts_bytes_to_the_end(folder, capsys):
    qwen3_5.load_params(folder, TINY, progress=True)
    assert "[##############################]" in capsys.readouterr().err
    qwen3_5.load_params(folder, TINY)  # no terminal: silent
    assert capsys.readouterr().err == ""
