"""The sandbox of image worker processes: resource limits, a Landlock ruleset and a seccomp filter."""

from imagehost_core.sandbox.enter import SandboxStatus, enter_sandbox
from imagehost_core.sandbox.limits import SandboxLimits

__all__ = ["SandboxLimits", "SandboxStatus", "enter_sandbox"]
