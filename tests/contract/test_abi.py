"""hajax/abi is the one truth for both languages: every list is read, numbers are unique, headers parse, digests agree."""

import re
from pathlib import Path

import cffi
import pytest

from hajax import abi, backends
from hajax.backends import sim

FOLDER = Path(abi.__file__).parent
LISTS = sorted(path.stem for path in FOLDER.glob("*.def"))
READ = [
    "backends", "checks", "counters", "counts", "decays", "dtypes", "flags", "instructions", "isas", "opcodes", "paths", "pipes",
    "spaces", "statuses", "tensors", "timing",
]  # fmt: skip


def test_every_list_is_known_here():
    assert LISTS == READ


@pytest.mark.parametrize("name", LISTS)
def test_no_row_of_a_list_is_skipped(name):
    text = (FOLDER / f"{name}.def").read_text(encoding="utf-8")
    written = re.findall(r"^\s*[A-Z]+\(", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL), re.MULTILINE)
    assert len(abi.rows(name)) == len(written) > 0


@pytest.mark.parametrize("name", LISTS)
def test_numbers_and_names_of_a_list_are_unique_and_in_order(name):
    numbers, names = ([row[i] for row in abi.rows(name)] for i in (0, 1))
    assert numbers == sorted(set(numbers))
    assert len(set(names)) == len(names)
    assert len(abi.table(name)) == len(names)
    assert {len(row) for row in abi.rows(name)} == {len(abi.rows(name)[0])}


@pytest.mark.parametrize(("name", "room"), [
    ("counters", "HJ_COUNTERS"), ("counts", "HJ_COUNTS"), ("paths", "HJ_PATHS"), ("pipes", "HJ_PIPES"), ("timing", "HJ_TIMINGS"),
    ("instructions", "HJ_INSTRUCTIONS"),
])  # fmt: skip
def test_a_list_fits_its_array(name, room):
    assert max(abi.table(name)) < abi.constant(room)


def test_the_headers_parse_and_hold_no_hidden_padding():
    ffi = cffi.FFI()
    ffi.cdef(abi.header_text())
    for struct in (
        "hj_plan_header",
        "hj_cpu_plan",
        "hj_delta_call",
        "hj_delta_backward",
        "hj_cost",
        "hj_target",
        "hj_sim_options",
        "hj_sim_counts",
        "hj_npu_plan",
        "hj_npu_launch",
        "hj_npu_item",
        "hj_npu_sequence",
        "hj_npu_call",
        "hj_npu_program",
        "hj_step",
        "hj_ascend_needs",
        "hj_ascend_arrays",
    ):
        end = 0
        for _, field in ffi.typeof(struct).fields:
            assert field.offset == end, f"{struct}: padding before offset {field.offset}"
            end = field.offset + ffi.sizeof(field.type)
        assert end == ffi.sizeof(struct)


# The first that fits; libhajax_sim is libhajax_ascend as well, over the emulator's ACL.
LIBRARIES = {
    "hajax_sim_": sim.open_sim_library,
    "hajax_ascend_": sim.open_sim_library,
    "hajax_": backends.open_library,
}


@pytest.mark.parametrize("prefix", LIBRARIES)
def test_a_librarys_digest_is_this_packages(prefix):
    library = LIBRARIES[prefix]()
    assert library.ffi.string(getattr(library.lib, f"{prefix}abi_digest")()).decode() == abi.digest()


def test_every_function_of_the_headers_is_in_its_library():
    functions = re.findall(r"\b(hajax_\w+)\(", abi.header_text())
    found = dict.fromkeys(LIBRARIES, 0)
    for function in functions:
        prefix = next(prefix for prefix in LIBRARIES if function.startswith(prefix))
        assert LIBRARIES[prefix]().address(function) != 0
        found[prefix] += 1
    assert found["hajax_"] >= 7
    assert found["hajax_sim_"] >= 20
    assert found["hajax_ascend_"] >= 20


def test_an_unknown_constant_and_an_empty_list_are_errors():
    with pytest.raises(KeyError, match="HJ_NO_SUCH"):
        abi.constant("HJ_NO_SUCH")
    with pytest.raises(FileNotFoundError):
        abi.rows("no_such_list")


def test_dtypes_have_numpys_sizes():
    import ml_dtypes
    import numpy as np

    sizes = {str(row[1]): row[2] for row in abi.rows("dtypes")}
    assert sizes == {n: np.dtype(getattr(ml_dtypes, n, None) or n).itemsize for n in sizes}
