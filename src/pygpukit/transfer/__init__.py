"""Copies between host and device: in the background, by priority, with futures."""

from pygpukit.transfer.engine import TransferFuture, configure, stats, submit_d2h, submit_h2d

__all__ = ["TransferFuture", "configure", "stats", "submit_d2h", "submit_h2d"]
