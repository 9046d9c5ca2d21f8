"""Another module name of version 0.2 for the same classes."""

from _pygpukit_rust import *  # noqa: F403
from _pygpukit_rust import device, dispatch, llm, memory, scheduler, transfer

__all__ = ["device", "dispatch", "llm", "memory", "scheduler", "transfer"]
