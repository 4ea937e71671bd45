"""Plans as data: the model, its bytes, its JSON, and checks that share nothing with the passes that made it."""

from hajax.plans.model import Fused, Note, Plan, Shape
from hajax.plans.text import from_json, to_json
from hajax.plans.verify import verify
from hajax.plans.wire import to_bytes

__all__ = ["Fused", "Note", "Plan", "Shape", "from_json", "to_bytes", "to_json", "verify"]
