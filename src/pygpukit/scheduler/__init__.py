"""The GPU as a resource that is shared."""

from pygpukit.scheduler.partition import Limit, Partition, PartitionReport, partition

__all__ = ["Limit", "Partition", "PartitionReport", "partition"]
