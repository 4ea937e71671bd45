"""The Ascend C headers compile by themselves and with every call; what a chip or the emulator lacks does not, and says so."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hajax.backends import sim

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "native" / "emulator" / "ascendc"
SOURCES = Path(__file__).parent / "api"
KERNELS = sorted([*SOURCES.glob("*.cpp"), *(ROOT / "examples" / "ascend").glob("*.cpp")])
TARGETS = {2002: "ascend310p1", 3002: "ascend310b1"}
COMPILERS = [name for name in ("g++", "clang++") if shutil.which(name)]
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")


def compiled(compiler, arch, text, *flags):
    """Exit status and output of a compilation of `text` that keeps nothing."""
    flags = flags or ("-fsyntax-only",)
    command = [compiler, "-std=c++17", *sim.compile_flags(TARGETS[arch]), *flags, "-x", "c++", "-", "-o", "/dev/null"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stderr


def header_jobs():
    for path in sorted(HEADERS.rglob("*.h")):
        name = path.relative_to(ROOT)
        for arch in TARGETS:
            if (arch == 2002 and "m300" in path.parts) or (arch == 3002 and "m200" in path.parts):
                continue
            # What a header needs does not depend on the compiler; the one that includes all of them goes through each.
            for compiler in COMPILERS if path.name == "kernel_operator.h" else COMPILERS[:1]:
                yield compiler, arch, f'#include "{name}"\n', "-fsyntax-only", *STRICT


def test_there_is_a_compiler():
    assert COMPILERS


def test_every_header_compiles_alone():
    jobs = list(header_jobs())
    assert len(jobs) > 50
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda job: compiled(*job), jobs))
    assert not [(job[2], output) for job, (status, output) in zip(jobs, done, strict=True) if status != 0]


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_every_call_compiles(compiler, arch):
    status, output = compiled(compiler, arch, (SOURCES / "every_call.cpp").read_text(), "-fsyntax-only", *STRICT)
    assert status == 0, output


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("source", KERNELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_kernels_compile(compiler, source):
    if source.stem == "every_call":
        return  # above
    text = f'#include "{source}"\n'
    status, output = compiled(compiler, 2002, text, "-fsyntax-only", "-Wall", "-Wextra", "-Werror")
    assert status == 0, output


# --- what does not compile: expression, and what the compiler has to say

NAMES = """
#include "kernel_operator.h"
using namespace AscendC;
LocalTensor<half> h;
LocalTensor<float> f;
LocalTensor<int8_t> s8;
LocalTensor<uint8_t> u8;
LocalTensor<int32_t> s32;
LocalTensor<uint32_t> u32;
GlobalTensor<half> gh;
GlobalTensor<float> gf;
GlobalTensor<int32_t> gs32;
uint64_t bits[2];
"""

LACKED = [  # on 310P; on 310B not emulated yet
    ("DataCopyPad(h, gh, DataCopyParams(), DataCopyPadParams())", "DataCopyPad"),
    ("DataCopyPad(h, gh, {1, 30, 0, 0, 0}, {false, 0, 0, half(0)})", "DataCopyPad"),
    ("DataCopyPad(gh, h, DataCopyExtParams())", "DataCopyPad"),
    ("DataCopyPad(gh, h, DataCopyParams())", "DataCopyPad"),
    ("Copy(h, h, uint64_t{64}, 1, {1, 1, 8, 8})", "Copy"),
    ("Copy(h, h, bits, 1, CopyRepeatParams())", "Copy"),
    ("LoadDataWithTranspose(h, h, LoadData2dTransposeParams())", "LoadDataWithTranspose"),
    ("LoadData(h, h, LoadData2DParamsV2())", "LoadData with LoadData2DParamsV2"),
    ("LoadData(h, gh, LoadData2DParamsV2())", "LoadData with LoadData2DParamsV2"),
    ("LoadDataWithSparse(s8, s8, u8, LoadData2DParams())", "LoadDataWithSparse"),
    ("MmadWithSparse(s32, s8, s8, MmadParams())", "MmadWithSparse"),
    ("Mmad(f, h, h, f, MmadParams())", "Mmad with a bias tensor"),
    ("Fixpipe(h, f, FixpipeParamsV220())", "Fixpipe"),
    ("Fixpipe<float, float, CFG_ROW_MAJOR>(gf, f, FixpipeParamsV220())", "Fixpipe"),
    ("Fill(gf, 64, 0.0f)", "Fill: of GM"),
    ("MrgSort(f, MrgSortSrcList<float>(), MrgSort4Info())", "MrgSort"),
    ("Gatherb(h, h, u32, 1, {1, 8})", "Gatherb"),
    ("ShiftLeft(u32, u32, 1U, 64)", "ShiftLeft"),
    ("ShiftRight(u32, u32, 1U, uint64_t{64}, 1, {1, 1, 8, 8})", "ShiftRight"),
    ("Sort32(f, f, u32, 1)", "Sort32"),
    ("Sort<float, true>(f, f, u32, f, 1)", "Sort"),
    ("MrgSort<float>(f, f, 1)", "MrgSort"),
    ("CrossCoreSetFlag<0, PIPE_V>(1)", "CrossCoreSetFlag"),
    ("CrossCoreWaitFlag(1)", "CrossCoreWaitFlag"),
    ("SetAtomicMax<float>()", "SetAtomicMax"),
    ("SetAtomicMin<float>()", "SetAtomicMin"),
    ("SetPadValue<half>(half(0))", "SetPadValue"),
    ("SetPadValue<half, TPosition::VECIN>(half(0))", "SetPadValue"),
    ("static_cast<void>(GetSystemCycle())", "GetSystemCycle"),
    ("DataSyncBarrier<MemDsbT::ALL>()", "DataSyncBarrier"),
    ("SetHF32Mode(true)", "SetHF32Mode"),
    ("SetHF32TransMode(HF32TransMode::NEAREST_EVEN)", "SetHF32TransMode"),
    ("DataCopy(gf, f, DataCopyCO12DstParams())", "DataCopy: CO1 to GM with DataCopyCO12DstParams"),
    ("DataCopy(h, f, DataCopyCO12DstParams())", "DataCopy: CO1 to L1 with DataCopyCO12DstParams"),
    ("DataCopy(h, f, DataCopyParams())", r"DataCopy: between tensors of different types \(C1 to C2\)"),
    ("InitOutput<float>(gf, 64, 0.0f)", "InitOutput"),
    ("SetLoadDataRepeat(1)", "SetLoadDataRepeat"),
    ("SetMMLayoutTransform(true)", "SetMMLayoutTransform"),
]
MISSING = [  # on both
    ("Subs(h, h, half(1), 64)", "Subs"),
    ("Divs(h, h, half(1), 64)", "Divs"),
    ("Ands(u32, u32, 1U, 64)", "Ands"),
    ("Ors(u32, u32, 1U, 64)", "Ors"),
    ("Truncate<float, RoundMode::CAST_TRUNC>(f, f, 64)", "Truncate"),
    ("Prelu(h, h, h, 64)", "Prelu"),
    ("Interleave(h, h, h, h, 64)", "Interleave"),
    ("DataCopyL1ToUB(h, h, 64)", "DataCopyL1ToUB"),
    ("DataCopy(h, h, Nd2NzParams())", "DataCopy: UB to L1 with Nd2NzParams"),
    ("AtomicAdd(bits, uint64_t{1})", "AtomicAdd"),
    ("SetLoopModePara(1, 2)", "SetLoopModePara"),
    ("WriteGmByPassDCache(bits, uint64_t{1})", "WriteGmByPassDCache"),
]
NOT_EMULATED = [  # of both
    ("IBSet(gs32, s32, 0, 0)", "IBSet"),
    ("IBWait<true>(gs32, s32, 0, 0)", "IBWait"),
    ("VectorPadding(h, h, 0, false, 64)", "VectorPadding"),
    ("LoadImageToLocal(h, 1)", "LoadImageToLocal"),
    ("LoadDataUnzip(s8, gh)", "LoadDataUnzip"),
    ("RpSort16(h, h, 1)", "RpSort16"),
    ("MrgSort4(h, h, 1)", "MrgSort4"),
    ("DumpTensor(h, 0, 64)", "DumpTensor"),
    ("LoadData3DParamsV1<half>()", "LoadData3DParamsV1"),
    ("LoadData3DParamsV2<half>()", "LoadData3DParamsV2"),
    ("TBufPool<TPosition::VECCALC>()", "TBufPool"),
    ("LocalTensor<half> t; static_cast<void>(PopStackBuffer<half, TPosition::LCM>(t))", "PopStackBuffer"),
]
BF16 = "bfloat16_t: {chip} has no emulated bf16"
EITHER = [
    ("LocalTensor<bfloat16_t>()", BF16),
    ("GlobalTensor<bfloat16_t>()", BF16),
    ("LocalTensor<int4b_t>()", "int4b_t: not emulated yet"),
    ("Div(s32, s32, s32, 64)", r"AscendC::Div: on {chip} for half, float"),
    ("Exp(s32, s32, 64)", r"AscendC::Exp: on {chip} for half, float"),
    ("And(s32, s32, s32, 64)", r"AscendC::And: on {chip} for int16_t, uint16_t"),
    ("Adds(u8, u8, uint8_t(1), 64)", r"AscendC::Adds: on {chip} for"),
    ("MulAddDst(h, f, f, 64)", "AscendC::MulAddDst: on {chip}"),
    ("Duplicate(u8, uint8_t(1), 64)", "AscendC::Duplicate: on {chip} for half"),
    ("Cast(f, s8, RoundMode::CAST_NONE, 64)", "AscendC::Cast: {chip}: emulated: int32_t, int16_t"),
    ("ReduceSum(s32, s32, s32, 64)", "reductions of AscendC: on {chip} emulated for half, float"),
    ("ReducePairElem<ReduceType::MAX>(h, h, 64, 1, 1, 1, 8)", "AscendC::ReducePairElem: on {chip} for ReduceType::SUM"),
    ("Mmad(f, s8, s8, MmadParams())", "AscendC::Mmad: on {chip}"),
    ("SetAtomicAdd<int8_t>()", "AscendC::SetAtomicAdd: on {chip}"),
    ("PipeBarrier<PIPE_FIX>()", "AscendC::PipeBarrier: not a pipe of {chip}"),
    ("SetFlag<HardEvent::M_FIX>(0)", "AscendC::SetFlag: {chip}: there is no emulated fixpipe"),
    ("TQue<TPosition::VECCALC, 1>()", "AscendC::TQue: no queue at this position"),
    ("(ScalarCast<float, half, RoundMode::CAST_RINT>(1.0f))", "AscendC::ScalarCast: on {chip} from float to half by CAST_ODD"),
    ("Compare(u32, h, h, CMPMODE::LT, 128)", "AscendC::Compare: dst: int8_t or uint8_t"),
]
ONLY = {
    2002: [
        ("SyncAll()", r"AscendC::SyncAll: without workspaces \(by hardware\): not on {chip}"),
        ("SetAtomicAdd<int32_t>()", "AscendC::SetAtomicAdd: on {chip} for float, half, int16_t"),
        ("LoadData(f, f, LoadData2DParams())", "AscendC::LoadData: on {chip} for half"),
        ("Fill(f, InitConstValueParams<float>())", "AscendC::Fill: on {chip} for half, int16_t, uint16_t"),
        (
            "(DataCacheCleanAndInvalid<half, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(gh))",
            "with DcciDst: not on {chip}",
        ),
        (
            "(GetReduceMaxMinCount<half>(*static_cast<half*>(nullptr), *static_cast<half*>(nullptr)))",
            "with the index: not on {chip}",
        ),
        (
            "uint64_t n; GatherMask<half, GatherMaskMode::VERSION_V2>(h, h, 1, false, 0, GatherMaskParams(), n)",
            "VERSION_V2: not on {chip}",
        ),
        ("DataCopy(s8, f, DataCopyParams(), DataCopyEnhancedParams())", "AscendC::DataCopy: on {chip} CO1 to UB"),
        ("Scatter(u8, u8, u32, 0, 64)", "AscendC::Scatter: on {chip} for half"),
        ("CastDeq(s8, h, 64)", "AscendC::CastDeq: on {chip} int8_t or uint8_t from int16_t"),
    ],
    3002: [
        ("SyncAll(gs32, s32)", "AscendC::SyncAll: not on {chip}"),
        ("SetCmpMask(u8)", "AscendC::SetCmpMask: not on {chip}"),
        ("Brcb(h, h, 1, BrcbRepeatParams())", "AscendC::Brcb: not on {chip}"),
        ("CastDeq(s8, h, 64)", "AscendC::CastDeq: not on {chip}"),
        ("AddDeqRelu(h, s32, s32, 64)", "AscendC::AddDeqRelu: not on {chip}"),
        (
            "Compare(u8, h, h, CMPMODE::LT, uint64_t{64}, 1, BinaryRepeatParams())",
            "AscendC::Compare: with a mask: not emulated yet",
        ),
        ("Compare(h, h, CMPMODE::LT, uint64_t{64}, BinaryRepeatParams())", "AscendC::Compare: into the register: not on {chip}"),
        ("Select(h, u8, h, h, SELMODE::VSEL_TENSOR_TENSOR_MODE, 128)", "AscendC::Select: not emulated yet"),
        ("Select(h, u8, h, half(1), SELMODE::VSEL_TENSOR_SCALAR_MODE, 128)", "AscendC::Select: not emulated yet"),
        ("DataCopy(h, gh, Nd2NzParams())", "AscendC::DataCopy: with Nd2NzParams: not emulated yet on {chip}"),
        ("DataCopy(gh, h, Nz2NdParamsFull())", "AscendC::DataCopy: with Nz2NdParamsFull: not emulated yet on {chip}"),
        ("DataCopy(f, f, DataCopyParams(), DataCopyEnhancedParams())", "AscendC::DataCopy: between CO1 and UB: not on {chip}"),
        ("TQue<TPosition::CO1, 1>()", "AscendC::TQue at CO1: fixpipe"),
        ("LocalMemAllocator<>()", "AscendC::LocalMemAllocator: not on {chip}"),
        ("uint64_t n; GatherMask(h, h, 1, false, 0, GatherMaskParams(), n)", "AscendC::GatherMask: not emulated yet"),
        ("Cast(s8, h, RoundMode::CAST_NONE, 64)", "The chip's others are not emulated yet"),
    ],
}


def refusals(arch):
    """(expression, regular expression of the message) of each call that must not compile for the chip."""
    chip = {2002: r"dav-m200 \(310P\)", 3002: r"dav-m300 \(310B\)"}[arch]
    lacked = "not on {chip}: \\w" if arch == 2002 else "not emulated yet on {chip}: \\w"
    table = [(call, f"AscendC::{name}: {lacked}") for call, name in LACKED]
    table += [(call, f"AscendC::{name}: not on {{chip}}: \\w") for call, name in MISSING]
    table += [(call, f"AscendC::{name}: not emulated yet: \\w") for call, name in NOT_EMULATED]
    table += [*EITHER, *ONLY[arch]]
    return [(call, text.replace("{chip}", chip)) for call, text in table]


def diagnoses(output):
    """Each error of a compiler's output with the lines that say where it comes from: g++ puts them before, clang++ behind."""
    found, before = [], []
    for line in output.splitlines():
        if re.search(r"\berror: ", line):
            found.append([*before, line])
            before = []
        elif found and "note: in instantiation" in line:
            found[-1].append(line)
        elif re.search(r"required from|In instantiation", line):
            before.append(line)
    return ["\n".join(lines) for lines in found]


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_what_is_missing_does_not_compile(compiler, arch):
    table = refusals(arch)
    snippets = "".join(f'#line 1 "call_{i}"\nvoid call_{i}() {{ {call}; }}\n' for i, (call, _) in enumerate(table))
    limits = ("-fmax-errors=0",) if compiler == "g++" else ("-ferror-limit=0", "-ftemplate-backtrace-limit=0")
    status, output = compiled(compiler, arch, NAMES + snippets, "-fsyntax-only", *limits)
    assert status != 0
    errors = diagnoses(output)
    wrong = [
        call
        for i, (call, text) in enumerate(table)
        if not any(re.search(text, error) and re.search(rf"\bcall_{i}:1\b", error) for error in errors)
    ]
    assert not wrong


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_rounding_mode_that_a_cast_lacks_does_not_compile_with_optimisation(compiler, arch):
    kernel = 'extern "C" void cast(LocalTensor<half> h, LocalTensor<float> f) { Cast(h, f, RoundMode::CAST_%s, 64); }\n'
    assert compiled(compiler, arch, NAMES + kernel % "ODD", "-O2", "-c")[0] == 0
    status, output = compiled(compiler, arch, NAMES + kernel % "FLOOR", "-O2", "-c")
    assert status != 0
    assert re.search("AscendC::Cast: dav-m.00 .* has no such rounding mode for these types", output)
    assert compiled(compiler, arch, NAMES + kernel % "FLOOR", "-O0", "-c")[0] == 0  # an error of the run then


def test_no_chip_and_an_unknown_one():
    cases = {"-DX": "compile kernels with -D__NPU_ARCH__=2002", "-D__NPU_ARCH__=2201": "expected 2002 .310P. or 3002"}
    for define, text in cases.items():
        command = [COMPILERS[0], "-std=c++17", "-fsyntax-only", define, f"-I{ROOT}", str(HEADERS / "kernel_operator.h")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode != 0
        assert re.search(text, done.stderr)
