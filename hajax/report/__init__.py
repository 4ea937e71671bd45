"""What a plan does and what an installation is, as text for people."""

from hajax.report._doctor import diagnose
from hajax.report._explain import explain, summary
from hajax.report._npu import diagnose_npu

__all__ = ["diagnose", "diagnose_npu", "explain", "summary"]
