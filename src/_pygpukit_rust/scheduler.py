"""Tasks, admission control, QoS and partitions."""

from pygpukit._compat.admission import (
    AdmissionConfig,
    AdmissionController,
    AdmissionStats,
    QosEvaluation,
    QosPolicy,
    QosPolicyEvaluator,
    QosStats,
    QosTaskMeta,
    ResourceRequirements,
)
from pygpukit._compat.partition import (
    Partition,
    PartitionConfig,
    PartitionLimits,
    PartitionManager,
    PartitionStats,
    PartitionUsage,
)
from pygpukit._compat.schedulers import RustScheduler as Scheduler
from pygpukit._compat.schedulers import RustTaskMeta as TaskMeta
from pygpukit._compat.schedulers import RustTaskPolicy as TaskPolicy
from pygpukit._compat.schedulers import RustTaskState as TaskState
from pygpukit._compat.schedulers import RustTaskStats as TaskStats
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
