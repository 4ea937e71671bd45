import adamw
import evaluate
import folder
import jax
import jax.numpy as jnp
import numpy as np
import shape
import tokenizer as bpe
import train

MEGABYTE = 1_000_000


def test_the_demo_model_fits_in_eight_megabytes_with_its_tokenizer_and_text():
    config = shape.demo_config()
    assert 2 * shape.parameter_count(config) + 400_000 < 8 * MEGABYTE
    assert config["layer_types"].count("linear_attention") == 3 * config["layer_types"].count("full_attention")
    assert config["linear_num_value_heads"] == 2 * config["linear_num_key_heads"]


def test_adamw_reaches_the_minimum_of_a_toy_and_averages_towards_it():
    target = jnp.arange(48.0).reshape(6, 8) / 48
    state = adamw.start({"matrix": jnp.zeros((6, 8)), "vector": jnp.ones(5)})
    gradient = jax.grad(lambda p: jnp.sum((p["matrix"] - target) ** 2) + jnp.sum(p["vector"] ** 2))
    step = jax.jit(lambda state, rate: adamw.update(state, gradient(state.params), rate, decay=0.0))
    for number in range(400):
        state, norm = step(state, adamw.cosine(number / 400, 0.05))
    assert float(norm) < 0.05
    np.testing.assert_allclose(state.params["matrix"], target, atol=0.02)
    np.testing.assert_allclose(state.average["matrix"], target, atol=0.1)


def test_only_matrices_decay_and_the_first_step_has_the_size_of_the_rate():
    start = {"matrix": jnp.ones((6, 8)), "norm": jnp.ones(5), "taps": jnp.ones((6, 4))}
    still, _ = adamw.update(adamw.start(start), jax.tree.map(jnp.zeros_like, start), jnp.float32(0.5), decay=0.1)
    np.testing.assert_allclose(still.params["matrix"], 0.95, rtol=1e-6)
    np.testing.assert_array_equal(still.params["norm"], 1.0)
    np.testing.assert_array_equal(still.params["taps"], 1.0)
    moved, norm = adamw.update(adamw.start(start), jax.tree.map(lambda p: 1e3 * p, start), jnp.float32(0.5), decay=0.0)
    np.testing.assert_allclose(moved.params["norm"], 0.5, rtol=1e-4)
    np.testing.assert_allclose(norm, 1e3 * (48 + 5 + 24) ** 0.5, rtol=1e-6)


def test_the_rate_rises_to_its_peak_and_falls_to_the_floor():
    rates = [adamw.cosine(step / 100, 1.0) for step in range(101)]
    assert max(rates) == rates[4] == 1.0
    assert rates[0] == 0.0
    assert rates[4:] == sorted(rates[4:], reverse=True)
    np.testing.assert_allclose(rates[-1], 0.05)


def test_a_uniform_model_has_the_vocabulary_as_perplexity():
    text = "one two three\n\n" * 30
    tokenizer = bpe.train_tokenizer(text, 270)
    result = evaluate.measure(lambda t: jnp.zeros((*t.shape, 270)), tokenizer, f"{text}{bpe.END}{text}", window=16)
    np.testing.assert_allclose(result.perplexity, 270, rtol=1e-5)
    assert result.bytes == 2 * len(text.strip("\n"))
    np.testing.assert_allclose(result.bits_per_byte, result.tokens * np.log2(270) / result.bytes, rtol=1e-5)


def test_noise_leaves_shares_and_embeddings_as_they_should_be():
    tokens = jnp.zeros((64, 64), jnp.int32)
    changed = float(jnp.mean(train.corrupt(tokens, jax.random.key(0), 0.25, 100) != 0))
    assert 0.2 < changed < 0.3
    params = {"embed": jnp.ones((100, 64)), "matrix": jnp.ones((64, 64)), "norm": jnp.ones(64)}
    dropped = train.drop_weights(params, jax.random.key(1), 0.25, 100)
    np.testing.assert_array_equal(dropped["embed"], 1.0)
    np.testing.assert_array_equal(dropped["norm"], 1.0)
    assert 0.2 < float(jnp.mean(dropped["matrix"] == 0)) < 0.3
    np.testing.assert_allclose(jnp.mean(dropped["matrix"]), 1.0, atol=0.05)


def test_a_few_steps_through_the_op_lower_the_loss_and_the_kept_folder_gives_it_back(tmp_path):
    from hajax.models import qwen3_5

    small = {"hidden_size": 32, "intermediate_size": 32, "head_dim": 16, "linear_key_head_dim": 8}
    described = shape.demo_config(64) | small | {"linear_value_head_dim": 8, "num_hidden_layers": 2}
    described["layer_types"] = ["linear_attention", "full_attention"]
    config = qwen3_5.Config.from_dict(described)

    def forward(params, tokens):
        return qwen3_5.forward(params, config, tokens, implementation="xla")

    step = train.make_step(forward, train.Options(4, 8, 64, "float32", 0.0, 0.0, 0.0, 0.0))
    tokens = np.tile(np.arange(3, 40, dtype=np.uint16), 20)
    validation = train.make_validation(forward, tokens, 4, 8, most=8)
    state = adamw.start(qwen3_5.init(config, jax.random.key(0)))
    before = validation(state.params)
    for _ in range(30):
        state, loss = step(state, jnp.asarray(tokens), jax.random.key(1), jnp.float32(1e-2))
    after = validation(state.params)
    assert before > 4.0
    assert after < 2.0
    assert np.isfinite(float(loss))
    folder.keep(tmp_path / "params", qwen3_5, state.params, config)
    folder.keep(tmp_path / "params", qwen3_5, state.params, config)
    assert [path.name for path in tmp_path.iterdir()] == ["params"]
    np.testing.assert_allclose(validation(folder.kept(tmp_path / "params", qwen3_5, config)), after, rtol=1e-3)
