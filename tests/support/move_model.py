"""What the moves of move_entry.cpp do, on numpy images of the memories, with exact counts."""

import numpy as np
from move_program import BLOCK, CRMODES, DTYPES, FRACTAL, OPCODES, SPACES, convert, runs

WINDOW = {"L1": 96 * 1024, "L0A": 64 * 1024, "L0B": 64 * 1024, "L0C": 96 * 1024, "UB": 96 * 1024, "GM": 64 * 1024}

# name: space to, space from, path
COPIES = {
    "copy_gm_to_cbuf": ("L1", "GM", "gm_to_l1"),
    "copy_gm_to_ubuf": ("UB", "GM", "gm_to_ub"),
    "copy_ubuf_to_gm": ("GM", "UB", "ub_to_gm"),
    "copy_ubuf_to_cbuf": ("L1", "UB", "ub_to_l1"),
    "copy_cbuf_to_ubuf": ("UB", "L1", "l1_to_ub"),
    "copy_ubuf_to_ubuf": ("UB", "UB", "ub_to_ub"),
}
LOADS = {
    "load_gm_to_cbuf": ("L1", "GM", "gm_to_l1"),
    "load_gm_to_ca": ("L0A", "GM", "gm_to_l0a"),
    "load_gm_to_cb": ("L0B", "GM", "gm_to_l0b"),
    "load_cbuf_to_ca": ("L0A", "L1", "l1_to_l0a"),
    "load_cbuf_to_cb": ("L0B", "L1", "l1_to_l0b"),
    "load_cbuf_to_ca_s8": ("L0A", "L1", "l1_to_l0a"),
    "load_cbuf_to_cb_u8": ("L0B", "L1", "l1_to_l0b"),
}
FILLS = {"create_cbuf_matrix": "L1", "create_ca_matrix": "L0A", "create_cb_matrix": "L0B"}
RESULT_MODES = {
    ("f16", "f16"): ("NONE", "NONE_RELU", "F16_MUL"),
    ("f32", "f32"): ("NONE", "NONE_RELU"),
    ("s32", "s32"): ("NONE", "NONE_RELU"),
    ("u32", "u32"): ("NONE",),
    ("f16", "f32"): ("F32toF16_NONE", "F32toF16_RELU"),
    ("f16", "s32"): ("S32toF16_NONE", "DEQSCALE_DEQ16"),
}
PRESET_MODES = dict.fromkeys((("f16", "f16"), ("f32", "f32"), ("s32", "s32"), ("u32", "u32")), ("NONE",)) | {
    ("f32", "f16"): ("F16toF32_NONE",)
}
RESULTS = sorted(name for name in OPCODES if name.startswith(("copy_matrix", "copy_vector")))
BROADCASTS = sorted(name for name in OPCODES if name.startswith("broadcast"))


def images(seed):
    rng = np.random.default_rng(seed)
    made = {space: rng.integers(0, 256, size, np.uint8) for space, size in WINDOW.items()}
    # Numbers of every size, no NaN: its bits are not compared.
    made["L0C"] = (rng.standard_normal(WINDOW["L0C"] // 4) * 2.0 ** rng.integers(-30, 20, WINDOW["L0C"] // 4)).astype(np.float32)
    made["UB"] = (rng.standard_normal(WINDOW["UB"] // 2) * 2.0 ** rng.integers(-16, 12, WINDOW["UB"] // 2)).astype(np.float16)
    return {space: image.view(np.uint8) for space, image in made.items()}


class Model:
    """numpy images, and what instructions do to them."""

    def __init__(self, seed):
        self.image = images(seed)
        self.bytes, self.transfers, self.transform = {}, {}, 0

    def count(self, path, moved, transform=False):
        self.bytes[path] = self.bytes.get(path, 0) + moved
        self.transfers[path] = self.transfers.get(path, 0) + 1
        self.transform += moved if transform else 0

    def copy(self, name, dst, src, count, length, src_gap, dst_gap):
        to, source, path = COPIES[name]
        moved = self.image[source][src + runs(count, length, src_gap * BLOCK)]
        self.image[to][dst + runs(count, length, dst_gap * BLOCK)] = moved
        self.count(path, moved.size, count > 1 and length == 1 and (src_gap == 0) != (dst_gap == 0))

    def load(self, name, dst, src, start, repeat, src_stride, dst_gap, *rest):
        to, source, path = LOADS[name]
        transpose, down = (0, *rest) if len(rest) == 1 else rest
        for i in range(repeat):
            at = src + (start + (-i if down else i) * src_stride) * FRACTAL
            fractal = self.image[source][at : at + FRACTAL]
            if transpose:
                fractal = np.ascontiguousarray(fractal.view(np.uint16).reshape(16, 16).T).view(np.uint8).ravel()
            self.image[to][dst + i * (1 + dst_gap) * FRACTAL :][:FRACTAL] = fractal
        if repeat:
            self.count(path, repeat * FRACTAL, bool(transpose))

    def fill(self, name, dst, repeat, value):
        self.image[FILLS[name]][dst : dst + repeat * FRACTAL] = np.full(repeat * FRACTAL // 2, value, np.uint16).view(np.uint8)

    def l0c_runs(self, itemsize, vector, count, length, gap):
        """Byte indices of the elements in L0C."""
        if not vector:
            return runs(count, length, gap * 256 * itemsize, 256 * itemsize)
        units = (np.arange(count)[:, None] * (length + gap) + np.arange(length)).ravel()
        return (units[:, None] * 256 * itemsize + np.arange(16 * itemsize)).ravel()

    def result(self, name, dst, src, count, length, src_gap, dst_gap, mode, scale):
        vector = "vector" in name
        out = "cc_to_ubuf" in name
        to, source = (DTYPES[part] for part in name.split("_")[-2:])
        to_bytes, from_bytes = np.dtype(to).itemsize, np.dtype(source).itemsize
        elements = 16 if vector else 256
        if out:
            read = src + self.l0c_runs(from_bytes, vector, count, length, src_gap)
            write = dst + runs(count, length, dst_gap * BLOCK, elements * to_bytes)
        else:
            read = src + runs(count, length, src_gap * BLOCK, elements * from_bytes)
            write = dst + self.l0c_runs(to_bytes, vector, count, length, dst_gap)
        spaces = ("UB", "L0C") if out else ("L0C", "UB")
        values = np.ascontiguousarray(self.image[spaces[1]][read]).view(source)
        self.image[spaces[0]][write] = convert(values, to, CRMODES[mode], scale).astype(to).view(np.uint8)
        self.count("l0c_to_ub" if out else "ub_to_l0c", read.size)

    def broadcast(self, name, dst, src, count, length, src_gap, dst_gap):
        dtype = np.dtype(DTYPES[name.rsplit("_", 1)[1]])
        read = src + runs(count, length, src_gap * BLOCK, 16 * dtype.itemsize)
        write = dst + runs(count, length, dst_gap * 256 * dtype.itemsize, 256 * dtype.itemsize)
        groups = self.image["UB"][read].reshape(-1, 16 * dtype.itemsize)
        self.image["L0C"][write] = np.repeat(groups, 16, axis=0).ravel()
        self.count("ub_to_l0c", read.size)

    def expect(self, program, before):
        found, done = program.run({s: before[s] for s in SPACES}, before["GM"])
        for space, image in self.image.items():
            wrong = np.flatnonzero(found[space] != image)
            assert wrong.size == 0, f"{space}: {wrong.size} bytes differ, the first at {wrong[0]}"
        for path, moved in self.bytes.items():
            assert (done.counts[path], done.counts[f"{path}_transfers"]) == (moved, self.transfers[path]), path
        assert done.counts["transform_bytes"] == self.transform
        return done
