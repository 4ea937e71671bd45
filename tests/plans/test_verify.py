"""verify refuses a plan with any one field broken, by its name; text and wire refuse what is missing or of another type."""

import dataclasses
import json
from dataclasses import replace

import pytest
from planning import AVX512, schedule, shape_of
from toy_plan import toy_plan

from hajax import abi
from hajax.mechanisms import Mechanism
from hajax.plans import Fused, Shape, from_json, packed, to_bytes, to_json, verify, wire

GOOD = schedule(shape_of(100, (2, 4), (64, 40), "bfloat16"), AVX512)

BROKEN = {
    "shape.batch": (0, -1, 2**63, True),
    "shape.tokens": (0, -5, 2**31, 1.5),
    "shape.sequences": (0, -1, 2**70, None),
    "shape.key_heads": (0, -1, 3, 2**70, None),
    "shape.value_heads": (0, 3, -2, 2**70, "4"),
    "shape.key_dim": (0, 4, 12, 264, -8, 2**70),
    "shape.value_dim": (0, 4, 12, 264, -8, 2**70),
    "shape.input_dtype": ("float64", "", "float8", None),
    "shape.output_dtype": ("float64", "int8"),
    "launch.isa": ("avx1024", ""),
    "launch.chunk": (0, 8, 24, 256, -16),
    "launch.panel": (0, 3, 128, -4),
    "launch.group": (0, 3, 64, -1),
    "launch.column_blocks": (0, 3, -1),
    "launch.token_steps": (-1, 2**31),
    "launch.workers": (0, -1, 4097),
    "launch.scratch_bytes": (0, -64, 100, 2**63),
}
FREE = {"launch.bf16_dot"}  # broken with another dtype, below


def broken(path, value):
    part, field = path.split(".")
    return replace(GOOD, **{part: replace(getattr(GOOD, part), **{field: value})})


def test_the_good_plan_is_good():
    assert verify(GOOD) is GOOD


def test_every_field_has_broken_values():
    fields = {f"shape.{f.name}" for f in dataclasses.fields(Shape)} | {f"launch.{f.name}" for f in dataclasses.fields(Fused)}
    assert fields == set(BROKEN) | FREE


@pytest.mark.parametrize("path", BROKEN)
def test_a_broken_field_is_refused(path):
    for value in BROKEN[path]:
        with pytest.raises(ValueError, match=r"plan\.(shape|launch)\.\w+: expected .*, got") as refused:
            verify(broken(path, value))
        if path != "shape.key_heads":  # whose change may show as a wrong value_heads or group
            assert f"plan.{path}: " in str(refused.value)


def test_a_bf16_dot_of_other_inputs_is_refused():
    plan = replace(GOOD, shape=replace(GOOD.shape, input_dtype="float32"), launch=replace(GOOD.launch, bf16_dot=True))
    with pytest.raises(ValueError, match=r"plan\.launch\.bf16_dot: expected False for inputs that are not bfloat16, got True"):
        verify(plan)


def test_text_keeps_everything():
    assert from_json(to_json(GOOD)) == GOOD
    assert from_json(to_json(GOOD, indent=2)) == GOOD
    assert to_json(from_json(to_json(GOOD))) == to_json(GOOD)


def test_a_missing_field_is_refused_in_text():
    data = json.loads(to_json(GOOD))
    for part in (data, data["mechanism"], data["shape"], data["launch"], data["notes"][0]):
        for name in list(part):
            kept = part.pop(name)
            with pytest.raises(ValueError, match="expected"):
                from_json(json.dumps(data))
            part[name] = kept
    assert from_json(json.dumps(data)) == GOOD


def test_an_unknown_field_is_refused_in_text():
    data = json.loads(to_json(GOOD))
    for part in (data, data["mechanism"], data["shape"], data["launch"], data["notes"][0]):
        part["colour"] = "red"
        with pytest.raises(ValueError, match="colour"):
            from_json(json.dumps(data))
        del part["colour"]


@pytest.mark.parametrize(("part", "name", "value"), [
    ("launch", "chunk", "64"), ("launch", "chunk", 64.0), ("launch", "chunk", True),
    ("launch", "bf16_dot", 1), ("launch", "isa", 3),
    ("launch", "workers", None), ("shape", "key_heads", None), ("shape", "tokens", "many"), ("shape", "input_dtype", None),
    ("mechanism", "decay", "sometimes"), ("mechanism", "delta", "yes"),
])  # fmt: skip
def test_a_field_of_another_type_is_refused_in_text(part, name, value):
    data = json.loads(to_json(GOOD))
    data[part][name] = value
    with pytest.raises(ValueError, match="expected"):
        from_json(json.dumps(data))


@pytest.mark.parametrize("make", [GOOD, toy_plan(), packed(toy_plan())], ids=["fused", "programs", "packed"])
@pytest.mark.parametrize(("name", "value", "expected"), [
    ("tokens", -1, "an integer from 1 to 2147483647 or None"), ("tokens", 2**31, "an integer from 1 to 2147483647 or None"),
    ("batch", 2**63, "an integer from 1 to 9223372036854775807 or None"), ("sequences", 0, "an integer from 1 to 2147483647"),
    ("value_heads", 2**70, "an integer from 1 to 2147483647"), ("key_dim", -8, "an integer from 1 to 2147483647"),
    ("input_dtype", "float8", r"one of \('float32', .*\)"), ("output_dtype", "", r"one of \('float32', .*\)"),
])  # fmt: skip
def test_a_shape_that_no_plan_can_have_is_refused_in_text(make, name, value, expected):
    data = json.loads(to_json(make))
    data["shape"][name] = value
    with pytest.raises(ValueError, match=rf"^plan\.shape\.{name}: expected {expected}, got {value!r}$"):
        from_json(json.dumps(data))


def test_packed_programs_of_a_shape_that_no_chip_has_are_refused():
    plan = packed(toy_plan())
    assert verify(plan) is plan
    for field, value, message in (
        ("batch", None, "expected an integer, as an Ascend plan names every sequence, got None"),
        ("key_dim", 24, "expected a multiple of 16 up to 256, got 24"),
        ("input_dtype", "bfloat16", "expected float16, got 'bfloat16'"),
    ):
        with pytest.raises(ValueError, match=rf"^plan\.shape\.{field}: {message}$"):
            verify(replace(plan, shape=replace(plan.shape, **{field: value})))


@pytest.mark.parametrize("call", [verify, to_json, to_bytes])
@pytest.mark.parametrize("value", [None, b"x", GOOD.shape])
def test_what_is_no_plan_is_refused(call, value):
    with pytest.raises(TypeError, match=rf"^plan: expected a Plan, got {type(value).__name__}$"):
        call(value)


def test_a_plan_of_no_launch_is_refused():
    with pytest.raises(TypeError, match=r"^plan\.launch: expected Fused, Programs or Packed, got NoneType$"):
        verify(replace(GOOD, launch=None))


def test_text_that_is_nested_too_deeply_or_no_text_is_refused():
    with pytest.raises(ValueError, match=r"^plan: not JSON of a plan \(nested too deeply\)$"):
        from_json("[" * 100_000)
    with pytest.raises(ValueError, match=r"^plan: not JSON \(Exceeds the limit"):
        from_json("1" * 5000)
    with pytest.raises(TypeError, match=r"^text: expected a string, got NoneType$"):
        from_json(None)


def test_a_scalar_that_no_float_holds_is_refused_in_text():
    data = json.loads(to_json(toy_plan()))
    data["launch"]["programs"][0]["scalars"][0] = 10**400
    with pytest.raises(ValueError, match=r"scalars: expected a number that a float holds, got one of 1329 bits$"):
        from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"plan"', "{}", to_json(GOOD)[:-5]])
def test_what_is_no_plan_is_refused_in_text(text):
    with pytest.raises(ValueError, match=r"expected|not JSON"):
        from_json(text)


def test_wire_carries_digest_and_fields():
    ffi = wire._ffi()
    data = to_bytes(GOOD)
    plan = ffi.from_buffer("hj_cpu_plan *", data)
    assert len(data) == plan.header.total_bytes == ffi.sizeof("hj_cpu_plan")
    assert bytes(plan.header.abi_digest).hex() == abi.digest()
    for name in (f.name for f in dataclasses.fields(Fused)):
        wanted = getattr(GOOD.launch, name)
        assert getattr(plan, name) == (abi.table("isas")[wanted] if name == "isa" else wanted)
    assert abi.table("dtypes")(plan.input_dtype).name == "bfloat16"


def test_wire_refuses_a_struct_with_a_field_it_does_not_fill(monkeypatch):
    import cffi

    longer = cffi.FFI()
    longer.cdef(abi.header_text().replace("int64_t scratch_bytes; /* for", "int64_t later; int64_t scratch_bytes; /* for"))
    monkeypatch.setattr(wire, "_ffi", lambda: longer)
    with pytest.raises(AssertionError, match="later"):
        to_bytes(GOOD)


def test_wire_refuses_a_number_that_does_not_fit():
    with pytest.raises(OverflowError):
        to_bytes(replace(GOOD, launch=replace(GOOD.launch, workers=2**40)))


@pytest.mark.parametrize("name", ["no_such_decay", "", None])
def test_a_mechanism_has_a_known_decay(name):
    with pytest.raises(ValueError, match="decay: expected one of"):
        Mechanism("x", decay=name, delta=True)
