"""What ascend_core.py prints for people."""

from typing import Any

import _ascend

TABLE_AT = 4096
COLUMNS = (
    ("GM MiB", "gm_bytes", 2**20, 1), ("L1-L0 MiB", "l1_to_l0_bytes", 2**20, 1), ("useful GMAC", "macs", 1e9, 2),
    ("split", "macs_split", 1e9, 2), ("bookkeep.", "macs_bookkeeping", 1e9, 2), ("transf. MiB", "transform_bytes", 2**20, 1),
    ("launches", "launches", 1, 0), ("workspace MiB", "gm_workspace_bytes", 2**20, 1),
    ("on core KiB", "peak_kernel_bytes", 2**10, 0), ("k cycles", "modelled_cycles", 1e3, 1), ("ms", "modelled_ms", 1, 3),
    ("mJ", "modelled_mj", 1, 2), ("cube use", "matrix_utilisation", 0.01, 1),
)  # fmt: skip


def show(report: dict[str, Any]) -> None:
    """Systems at one length, published figures beside ours, extension, claims."""
    _systems(report["rows"])
    _published(report["published"])
    for check in report["extension_checks"]:
        off = ", ".join(f"{name} {value:+.3%}" for name, value in check["off"].items())
        print(f"extended to T={check['T']} from {check['extended']}, over a run: {check['mechanism']} {check['system']}: {off}")
    print()
    for claim in report["claims"]:
        print(f"{'true ' if claim['holds'] else 'FALSE'} {claim['claim']}")
        _figures(claim["figures"])
    for absent in report["missing"]:
        print(f"missing: {absent['system']} with {absent['operands']} operands: {absent['reason']}")
    print(_ascend.MODELLED)


def _systems(rows: list[dict[str, Any]]) -> None:
    """A table for each problem and chip, at 4096 tokens or the longest there are; equal problems once."""
    at = max(row["T"] for row in rows)
    at = TABLE_AT if any(row["T"] == TABLE_AT for row in rows) else at
    tables: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    models: dict[tuple[Any, ...], dict[str, None]] = {}
    for row in rows:
        if row["T"] == at:
            place = tuple(row[name] for name in ("mechanism", "target", "Hk", "Hv", "operands"))
            tables.setdefault(place, {})[row["system"]] = row
            models.setdefault(place, {})[row["model"]] = None
    for place, systems in tables.items():
        mechanism, target, key_heads, value_heads, operands = place
        what_if = " (what-if: the 310P's instructions with this chip's sizes and rates)" if target == "ascend310b1" else ""
        print(
            f"{mechanism} on {target}{what_if}, T={at}, {key_heads}x{value_heads} heads ({', '.join(models[place])}), {operands}"
        )
        print(f"  {'':<15}" + "".join(f"{head:>14}" for head, *_ in COLUMNS))
        for system, row in systems.items():
            cells = "".join(f"{row[name] / unit:>14.{digits}f}" for _, name, unit, digits in COLUMNS)
            print(f"  {system:<15}{cells}{'  extended' if row['extended'] else ''}")
        print()


def _published(compared: list[dict[str, Any]]) -> None:
    print("reductions against fla and flashqla, beside those published (310P1, over all shapes run)")
    told = None
    for one in compared:
        if one["figure"] != told:
            told = one["figure"]
            low, high = one["published"]
            span = f"{low:.1%}" if low == high else f"{low:.1%} ... {high:.1%}"
            print(f"  {told}: {one['about']}; published {span}")
            reasons = next((each["reasons"] for each in compared if each["figure"] == told and each["reasons"]), None)
            if reasons:
                print(f"    outside because: {reasons}")
        low, high = one["ours"]
        off = " and ".join(
            f"{one[name]:.1%} {word}" for name, word in (("below_by", "below"), ("above_by", "above")) if one[name]
        )
        whose = f"{one['system']:<5} to {one['against']:<18}{one['operands']:<7}"
        print(f"    {whose} {one['counted']:<18} {low:>7.1%} ... {high:>6.1%}  {off or 'inside'}")
    print()


def _figures(figures: dict[str, Any]) -> None:
    for name, figure in figures.items():
        if isinstance(figure, list):
            for one in figure:
                print(f"        {name}: " + ", ".join(f"{key} {value}" for key, value in one.items()))
        elif isinstance(figure, dict):
            print(f"        {name}: " + ", ".join(f"{key} {value}" for key, value in figure.items()))
        else:
            print(f"        {name}: {figure}")
