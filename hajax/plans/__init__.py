"""Plans as data: the model, its bytes, its JSON, and checks that share nothing with the passes that made it."""

from hajax.plans.model import Fused, Note, Packed, Plan, Shape
from hajax.plans.program import Programs
from hajax.plans.text import from_json, to_json
from hajax.plans.verify import verify
from hajax.plans.wire import from_bytes, opened, packed, summed, to_bytes

__all__ = [
    "Fused", "Note", "Packed", "Plan", "Programs", "Shape", "from_bytes", "from_json", "opened", "packed", "summed",
    "to_bytes", "to_json", "verify",
]  # fmt: skip
