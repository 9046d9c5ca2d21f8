"""Tasks, admission control, QoS and partitions."""

from pygpukit._compat.admission import AdmissionConfig, AdmissionController, AdmissionStats
from pygpukit._compat.partition import (
    Partition,
    PartitionConfig,
    PartitionLimits,
    PartitionManager,
    PartitionStats,
    PartitionUsage,
)
from pygpukit._compat.qos import (
    QosEvaluation,
    QosPolicy,
    QosPolicyEvaluator,
    QosStats,
    QosTaskMeta,
    ResourceRequirements,
)
from pygpukit._compat.rust_scheduler import (
    Scheduler,
    TaskMeta,
    TaskPolicy,
    TaskState,
    TaskStats,
)
from pygpukit._runtime import (
    AdmissionDecision,
    QosClass,
    RejectReason,
    RejectReasonDetails,
    SchedulerStats,
)

__all__ = [
    "AdmissionConfig",
    "AdmissionController",
    "AdmissionDecision",
    "AdmissionStats",
    "Partition",
    "PartitionConfig",
    "PartitionLimits",
    "PartitionManager",
    "PartitionStats",
    "PartitionUsage",
    "QosClass",
    "QosEvaluation",
    "QosPolicy",
    "QosPolicyEvaluator",
    "QosStats",
    "QosTaskMeta",
    "RejectReason",
    "RejectReasonDetails",
    "ResourceRequirements",
    "Scheduler",
    "SchedulerStats",
    "TaskMeta",
    "TaskPolicy",
    "TaskState",
    "TaskStats",
]
