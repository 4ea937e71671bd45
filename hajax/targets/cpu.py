"""A CPU as the planner sees it. `hajax.backends.cpu_target()` fills one from the machine at hand."""

import dataclasses

ON_TILES = ("tiles", "amx")  # instruction sets of isas.def


@dataclasses.dataclass(frozen=True, slots=True)
class CpuTarget:
    """One CPU and the instruction set that its kernels use.

    isa: a name of isas.def; panel: state columns that its kernel updates together; bf16_dot: it multiplies bf16 pairs;
    threads: that may work on one call; l1_bytes, l2_bytes: data cache of one core.
    """

    isa: str
    panel: int
    bf16_dot: bool
    threads: int
    l1_bytes: int
    l2_bytes: int

    def __post_init__(self) -> None:
        for name in ("panel", "threads", "l1_bytes", "l2_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"CpuTarget.{name}: expected a positive integer, got {getattr(self, name)!r}")

    @property
    def matrix_tiles(self) -> bool:
        """Whether its products of bf16 are those of matrix tiles, which take the whole kernel."""
        return self.isa in ON_TILES

    @property
    def fingerprint(self) -> str:
        """Everything that a plan depends on, in one line."""
        fields = dataclasses.asdict(self)
        return "cpu-" + "-".join(f"{name}={int(v) if isinstance(v, bool) else v}" for name, v in fields.items())
