"""Folders of Kimi Linear and Ling 3.0: round trips, the published layouts, and what is left out or refused."""

import json
import logging

import hajax.models
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hajax.models import _safetensors, kimi_linear, ling3
from tiny_models import TINY_KIMI, TINY_LING, family_of, random_params, records_of

CONFIGS = {"kimi_linear": TINY_KIMI, "ling3": TINY_LING}


@pytest.fixture(params=CONFIGS)
def config(request):
    return CONFIGS[request.param]


@pytest.fixture
def folder(config, tmp_path):
    family_of(config).save(tmp_path, random_params(config, 0), config)
    return tmp_path


def tensors_of(folder):
    return {name: _safetensors.read(entry) for name, entry in _safetensors.find(folder).items()}


def write(folder, tensors):
    _safetensors.write(str(folder / "model.safetensors"), tensors, {})


def equal(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def test_saved_weights_load_bit_for_bit_and_the_family_is_picked_by_its_type(config, folder):
    model = hajax.models.load(folder)
    assert model.family is family_of(config)
    assert model.config == config
    equal(model.params, random_params(config, 0))


def test_matrices_of_several_tensors_hold_them_in_order(config, folder):
    stored, params = tensors_of(folder), random_params(config, 0)
    kimi = config is TINY_KIMI
    mixer, sparse = ("self_attn", "block_sparse_moe") if kimi else ("attention", "mlp")
    gate, up, down = ("w1", "w3", "w2") if kimi else ("gate_proj", "up_proj", "down_proj")
    width, inner = config.linear_dim, config.moe_intermediate_size
    for place, name in enumerate("qkv"):
        rows = slice(place * width, (place + 1) * width)
        equal(stored[f"model.layers.0.{mixer}.{name}_proj.weight"], params.layers[0].mixer.qkv[rows])
        equal(stored[f"model.layers.0.{mixer}.{name}_conv1d.weight"][:, 0], params.layers[0].mixer.conv[rows])
    experts = params.layers[1].mlp
    for expert in range(config.num_experts):
        at = f"model.layers.1.{sparse}.experts.{expert}."
        equal(stored[f"{at}{gate}.weight"], experts.gate_up[expert, :inner])
        equal(stored[f"{at}{up}.weight"], experts.gate_up[expert, inner:])
        equal(stored[f"{at}{down}.weight"], experts.down[expert])
    assert stored[f"model.layers.0.{mixer}.A_log"].shape == ((1, 1, 3, 1) if kimi else (3,))


def test_saving_in_bfloat16_pins_gates_convolutions_and_routers(config, folder, tmp_path):
    family = family_of(config)
    family.save(tmp_path / "narrow", random_params(config, 0), config, dtype=jnp.bfloat16)
    kinds = {}
    for name, tensor in tensors_of(tmp_path / "narrow").items():
        kinds.setdefault(tensor.dtype.name, set()).add(name.split(".layers.1.")[-1])
    for part in ("gate.weight", "expert_bias", "correction_bias", "A_log", "dt_bias", "conv1d.weight"):
        assert not any(name.endswith(part) for name in kinds["bfloat16"]), part
    model = hajax.models.load(tmp_path / "narrow")
    assert model.dtype == jnp.bfloat16
    records = jax.tree.leaves(records_of(config), is_leaf=lambda leaf: hasattr(leaf, "stored"))
    for record, leaf in zip(records, jax.tree.leaves(model.params), strict=True):
        assert leaf.dtype == (jnp.float32 if record.wide else jnp.bfloat16), record.name
    assert hajax.models.load(folder, "float16").params.layers[1].mlp.gate_up.dtype == jnp.float16


def test_init_gives_what_the_config_says(config):
    params = jax.eval_shape(lambda: family_of(config).init(config, jax.random.key(0), jnp.bfloat16))
    expected = jax.tree.map(lambda leaf: leaf.shape, random_params(config, 0))
    assert jax.tree.map(lambda leaf: leaf.shape, params) == expected
    assert params.layers[1].mlp.down.dtype == jnp.bfloat16
    assert params.layers[0].mixer.log_a.dtype == jnp.float32


def test_a_dense_layer_under_the_experts_name_reads_the_same(tmp_path):
    params = random_params(TINY_KIMI, 1)
    kimi_linear.save(tmp_path, params, TINY_KIMI)
    write(tmp_path, {name.replace(".mlp.", ".block_sparse_moe."): tensor for name, tensor in tensors_of(tmp_path).items()})
    equal(kimi_linear.load_params(tmp_path, TINY_KIMI), params)


def test_layers_behind_the_last_are_skipped_with_a_line(tmp_path, caplog):
    params = random_params(TINY_LING, 1)
    ling3.save(tmp_path, params, TINY_LING)
    extra = {"model.layers.3.eh_proj.weight": np.zeros(2, np.float32), "model.layers.3.final.weight": np.zeros(2, np.int8)}
    write(tmp_path, tensors_of(tmp_path) | extra)
    with caplog.at_level(logging.WARNING, "hajax.models"):
        equal(ling3.load_params(tmp_path, TINY_LING), params)
    assert "skipped 2 multi-token prediction tensors" in caplog.text
    write(tmp_path, tensors_of(tmp_path) | {"model.layers.2.eh_proj.weight": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match=r"unexpected tensor 'model\.layers\.2\.eh_proj\.weight'"):
        ling3.load_params(tmp_path, TINY_LING)


def test_an_expert_that_does_not_fit_is_named(config, folder):
    tensors = tensors_of(folder)
    name = next(name for name in tensors if "experts.5." in name and "layers.2" in name)
    shape = list(tensors[name].shape)
    write(folder, tensors | {name: tensors[name][:-1]})
    with pytest.raises(ValueError, match=rf"{name}: expected shape \[{shape[0]}, {shape[1]}\] as config.json says"):
        hajax.models.load(folder)
    write(folder, {key: tensor for key, tensor in tensors.items() if key != name})
    with pytest.raises(ValueError, match=f"missing tensor '{name}'$"):
        hajax.models.load(folder)


def test_shards_that_part_an_experts_matrices_read_the_same(config, folder):
    tensors = tensors_of(folder)
    places = {name: f"model-{index % 3}.safetensors" for index, name in enumerate(sorted(tensors))}
    for file in set(places.values()):
        _safetensors.write(str(folder / file), {name: tensors[name] for name, place in places.items() if place == file}, {})
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    equal(family_of(config).load_params(folder, config), random_params(config, 0))
