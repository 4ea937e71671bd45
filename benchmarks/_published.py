"""Figures published for the system that this project follows, and ours beside them.

Reductions are 1 - ours / theirs: of the published system ("hanpu" here) or hajax against fla or flashqla, on a 310P with ten AI
cores, chunks of 64, fp16 inputs, fp32 gates and state. Ranges are over head counts, lengths and both mechanisms, where no word
says otherwise.
"""

import dataclasses
import itertools
from typing import Any

import _claims

TARGET = "ascend310p1"  # the 310P of ten cores
OURS = ("hanpu", "hajax")
AGAINST = {"flashqla": ("flashqla", "flashqla_segments")}  # the latter with summaries of segments, at lengths that run in full


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A published reduction. counted: names of what we count of it, each a sum of a row's figures.

    mechanism, tokens: of these only, or of all. digits: those it is given to.
    """

    name: str
    about: str
    against: str
    published: tuple[float, float]
    counted: tuple[str, ...]
    mechanism: str | None = None
    tokens: int | None = None
    digits: int = 3
    reasons: str = ""


COUNTED = {
    "gm_bytes": ("gm_bytes",),
    "l1_to_l0_bytes": ("l1_to_l0_bytes",),
    "macs, useful only": ("macs",),
    "macs, all": ("macs", "macs_split", "macs_bookkeeping"),
    "gm_memory_bytes": ("gm_memory_bytes",),
}
_MACS = ("macs, useful only", "macs, all")
FIGURES = (
    Figure(
        "gm_bytes_reduction_vs_fla", "fewer bytes to and from global memory than FLA's four launches",
        "fla", (0.655, 0.848), ("gm_bytes",),
        reasons="Single operands are inside. Split ones double what FLA's launches hand on (A, w, h and x in two parts, u as "
        "fp32), while the fused kernels move what they did: above. At 16x32 hajax reads keys and queries once for two "
        "value heads, which hanpu, as the published system, does not.",
    ),
    Figure(
        "gm_bytes_reduction_vs_flashqla", "fewer bytes to and from global memory than FlashQLA's two stages",
        "flashqla", (0.212, 0.408), ("gm_bytes",),
        reasons="GDN with single operands is inside. Split ones double A, which is handed on. For KDA both launches read the "
        "fp32 gates, a third of a fused kernel's bytes, and hand on P beside A; the published FlashQLA must have read or kept "
        "less. Column pieces of heads in its second launch read keys, gates, A and P once each. At 16x32 hajax reads keys "
        "and queries once for two value heads. With segments half of the chunks have keys, values and gates read "
        "a third time.",
    ),
    Figure(
        "l1_to_l0_bytes_reduction_vs_fla", "fewer bytes from L1 to L0A and L0B than FLA",
        "fla", (0.305, 0.464), ("l1_to_l0_bytes",),
        reasons="GDN of hanpu is inside. For KDA halving takes the scores on the cube: most of all loads, the same ones in each "
        "system, so that less can be saved; the published kernel must take its scores with less of the cube. hajax loads "
        "more, on purpose: splits, row scalings and decays are products of the cube there, which is what makes it the "
        "fastest.",
    ),
    Figure(
        "l1_to_l0_bytes_reduction_vs_flashqla", "fewer bytes from L1 to L0A and L0B than FlashQLA",
        "flashqla", (0.392, 0.584), ("l1_to_l0_bytes",),
        reasons="By label, operands of all products are the same in hanpu and flashqla, which only loads keys of K K^T and those "
        "of the gates' sums once more, as it has two launches. With segments, whose summaries are products of their own, GDN is "
        "inside, which says that the published system was compared with a FlashQLA that computes them; with 16 or 32 heads the "
        "cores are busy without, so flashqla is the faster form here. KDA and hajax: as against fla.",
    ),
    Figure(
        "macs_reduction_vs_fla_gdn_4096", "fewer multiply-accumulates than FLA, GDN at T = 4096",
        "fla", (0.175, 0.175), _MACS, "gdn", 4096,
        reasons="Useful: FLA has one product of C C D more (w), and all systems here skip tiles above the diagonal; at 16x16 "
        "column pieces of hanpu's and hajax's heads repeat K K^T and Q K^T. All: FLA's launches make the sums of gates up "
        "to three times, w is split twice; hajax executes more, on purpose. What was counted is not published: the "
        "inverse in FLA only and Q K^T for each half of the values gives 17.5 %, as do other sets of assumptions, so a "
        "match would prove little.",
    ),
    Figure(
        "macs_reduction_vs_flashqla_gdn_4096", "fewer multiply-accumulates than FlashQLA, GDN at T = 4096",
        "flashqla", (0.129, 0.129), _MACS, "gdn", 4096,
        reasons="Useful: the products are the same, so all that is left is how often column pieces repeat K K^T or Q K^T. With "
        "segments half of the chunks are summarised at these head counts, for as many products as a chunk has itself: more than "
        "published, where 12.9 % is a seventh of the chunks at that price, 30 % at half of it. All: FlashQLA makes the sums of "
        "gates twice; hajax executes more, on purpose.",
    ),
    Figure(
        "peak_kernel_memory_reduction_vs_fla.gdn", "less memory in use while the kernels run than FLA, GDN",
        "fla", (0.317, 0.526), ("gm_memory_bytes",), "gdn",
        reasons="Inputs, output and states are the same for all, so FLA's workspace decides. Single operands at 16x16 are about "
        "at the upper end; split ones double the workspace; at 16x32 keys and queries are there once for two value heads "
        "but the workspace once for each. The published lower end needs two fifths of this workspace: its FLA must have "
        "freed or reused more of it than the one slot of a chunk here, in which only what no launch needs at the same "
        "time shares bytes.",
    ),
    Figure(
        "peak_kernel_memory_reduction_vs_fla.kda", "less memory in use while the kernels run than FLA, KDA",
        "fla", (0.387, 0.546), ("gm_memory_bytes",), "kda",
        reasons="As for GDN; the workspace has P and keys scaled to the chunk's end as well, the inputs have fp32 gates.",
    ),
    Figure(
        "peak_kernel_memory_reduction_vs_flashqla_65536.gdn", "less memory in use than FlashQLA, GDN at T = 65536",
        "flashqla", (0.060, 0.060), ("gm_memory_bytes",), "gdn", 65536,
        reasons="All that differs is A, 64 x 64 for each head and chunk. Here it is whole, in one or two fp16 parts. 6 % is half "
        "of a whole one in fp16 at 16x16: the published FlashQLA seems to keep its lower triangle only.",
    ),
    Figure(
        "peak_kernel_memory_reduction_vs_flashqla_65536.kda", "less memory in use than FlashQLA, KDA at T = 65536",
        "flashqla", (0.228, 0.228), ("gm_memory_bytes",), "kda", 65536,
        reasons="A and the triangle of P differ. In one fp16 part they are half of what was published, in two parts about as "
        "much: the published FlashQLA keeps more for KDA, such as fp32 scores or a tile of scaled keys.",
    ),
)  # fmt: skip


def compare(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ours beside each figure: for hanpu and hajax, split and single operands, and each way to count it."""
    own = [row for row in rows if row["target"] == TARGET]
    found = []
    for figure in FIGURES:
        for operands in dict.fromkeys(row["operands"] for row in own):
            for system in OURS:
                for counted, against in itertools.product(figure.counted, AGAINST.get(figure.against, (figure.against,))):
                    one = dataclasses.replace(figure, against=against)
                    some = reductions(own, one, system, operands, COUNTED[counted])
                    if some:
                        found.append(_compared(one, system, operands, counted, some))
    return found


def reductions(
    rows: list[dict[str, Any]], figure: Figure, system: str, operands: str, names: tuple[str, ...]
) -> dict[str, float]:
    """By place."""
    wanted = [
        row
        for row in rows
        if row["operands"] == operands and figure.mechanism in (None, row["mechanism"]) and figure.tokens in (None, row["T"])
    ]
    found = {}
    for one, systems in _claims.cells_of(wanted):
        if {system, figure.against} <= set(systems):
            ours, theirs = (sum(systems[name][count] for count in names) for name in (system, figure.against))
            found[_claims.where(one)] = 1 - ours / theirs
    return found


def _compared(figure: Figure, system: str, operands: str, counted: str, some: dict[str, float]) -> dict[str, Any]:
    least, most = (pick(some, key=lambda place: some[place]) for pick in (min, max))
    ours = (some[least], some[most])
    below, above = outside(ours, figure.published, figure.digits)
    return {
        "figure": figure.name,
        "about": figure.about,
        "system": system,
        "against": figure.against,
        "operands": operands,
        "counted": counted,
        "ours": [round(value, 4) for value in ours],
        "ours_at": [least, most],
        "by_mechanism": {
            name: [round(pick(own), 4) for pick in (min, max)]
            for name in ("gdn", "kda")
            if (own := [value for place, value in some.items() if place.startswith(name)])
        },
        "published": list(figure.published),
        "inside": below == above == 0,
        "below_by": round(below, 4),
        "above_by": round(above, 4),
        "reasons": None if below == above == 0 else figure.reasons,
    }


def outside(ours: tuple[float, float], published: tuple[float, float], digits: int) -> tuple[float, float]:
    """How far our range goes below and above the published one, which is given to so many digits."""
    slack = 0.5 * 10**-digits
    below, above = published[0] - ours[0], ours[1] - published[1]
    return (below if below > slack else 0.0, above if above > slack else 0.0)
