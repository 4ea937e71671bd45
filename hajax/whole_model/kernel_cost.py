"""What a kernel costs on a chip, but for the delta rule, which the emulator runs. Modelled: see roofline.py for the time."""

from hajax.targets import NpuTarget
from hajax.whole_model.attention_cost import attention_cost
from hajax.whole_model.kernels import Elementwise, Matmul, SoftmaxAttention
from hajax.whole_model.matmul_cost import matmul_cost
from hajax.whole_model.roofline import COPY_BYTES, Cost, Issued, cost_of, read_to_ub, vector, written_from_ub


def kernel_cost(target: NpuTarget, kernel: Matmul | Elementwise | SoftmaxAttention) -> Cost:
    """Cycles, energy and bytes of one launch over all cores of the chip."""
    match kernel:
        case Matmul():
            return matmul_cost(target, kernel)
        case Elementwise():
            return elementwise_cost(target, kernel)
        case SoftmaxAttention():
            return attention_cost(target, kernel)


def elementwise_cost(target: NpuTarget, kernel: Elementwise) -> Cost:
    """Tiles dealt out evenly; reading, vector work and writing overlap but for the first tile's and the last one's."""
    busiest = _tiles(kernel, target.ai_cores)
    fill = target.gm_read_latency + min(COPY_BYTES, kernel.read) / target.gm_ddr_read_rate
    drain = min(COPY_BYTES, kernel.written) / target.gm_ddr_write_rate + target.gm_write_latency
    return cost_of(target, busiest, _tiles(kernel, 1), fill=fill, drain=drain)


def _tiles(kernel: Elementwise, cores: int) -> tuple[Issued, ...]:
    def part(size: int) -> int:
        return -(-size // cores)

    rows = part(kernel.copies)
    read, written = read_to_ub(part(kernel.read), rows), written_from_ub(part(kernel.written), rows)
    work = tuple(vector(lanes.instruction, part(lanes.elements)) for lanes in kernel.work)
    return (read, written, *work, Issued("set_flag", 2 * (read.number + written.number)))
