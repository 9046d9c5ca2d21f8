"""The GPU as a resource that tasks share.

>>> import pygpukit as gp
>>> task = gp.scheduler.submit(lambda: (gp.ones(3) + 1).to_numpy(), memory=gp.scheduler.MB)
>>> task.result()

`submit` and `TaskScheduler` run functions on streams of their own. `Scheduler` and `Task`, the
execution contexts, and the Rust* names are those of version 0.2.
"""

from pygpukit._compat.partition import (
    Partition,
    PartitionConfig,
    PartitionLimits,
    PartitionManager,
    PartitionStats,
    PartitionUsage,
)
from pygpukit._runtime import (
    AdmissionConfig,
    AdmissionController,
    AdmissionDecision,
    AdmissionStats,
    LimitLedger,
    MemoryLedger,
    QosClass,
    QosEvaluation,
    QosPolicy,
    QosPolicyEvaluator,
    QosStats,
    QosTaskMeta,
    RejectReason,
    RejectReasonDetails,
    ResourceRequirements,
    TaskInfo,
)
from pygpukit._runtime import Scheduler as RustScheduler
from pygpukit._runtime import SchedulerStats as RustSchedulerStats
from pygpukit._runtime import TaskMeta as RustTaskMeta
from pygpukit._runtime import TaskPolicy as RustTaskPolicy
from pygpukit._runtime import TaskState as RustTaskState
from pygpukit._runtime import TaskStats as RustTaskStats
from pygpukit.memory import GB, HAS_RUST_BACKEND, KB, MB
from pygpukit.scheduler.errors import (
    DeadlineMissed,
    DependencyFailed,
    TaskCancelled,
    TaskDeadlock,
    TaskError,
)
from pygpukit.scheduler.execution import (
    HAS_MULTI_LLM,
    AsyncKernelRequest,
    ContextStats,
    ExecutionContext,
    FutureState,
    KernelFuture,
    KernelResult,
    SchedulerStats,
    context_session,
    create_context,
    destroy_context,
    get_context,
    initialize,
    is_session_active,
    list_contexts,
    reset,
    session,
    stats,
)
from pygpukit.scheduler.future import TaskFuture, current_task
from pygpukit.scheduler.inspection import Snapshot, TaskSummary, add_section
from pygpukit.scheduler.partition import (
    DevicePartition,
    LimitReport,
    PartitionReport,
    partition,
)
from pygpukit.scheduler.publishing import publish, unpublish
from pygpukit.scheduler.service import (
    Client,
    TaskScheduler,
    configure,
    default_scheduler,
    shutdown,
    snapshot,
    submit,
    thread_client,
)
from pygpukit.scheduler.simulation import SimDevice, SimResult, SimTask, simulate
from pygpukit.scheduler.tasks import Scheduler, Task, TaskPolicy, TaskState

__all__ = [
    "GB",
    "HAS_MULTI_LLM",
    "HAS_RUST_BACKEND",
    "KB",
    "MB",
    "AdmissionConfig",
    "AdmissionController",
    "AdmissionDecision",
    "AdmissionStats",
    "AsyncKernelRequest",
    "Client",
    "ContextStats",
    "DeadlineMissed",
    "DependencyFailed",
    "DevicePartition",
    "ExecutionContext",
    "FutureState",
    "KernelFuture",
    "KernelResult",
    "LimitLedger",
    "LimitReport",
    "MemoryLedger",
    "Partition",
    "PartitionConfig",
    "PartitionLimits",
    "PartitionManager",
    "PartitionReport",
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
    "RustScheduler",
    "RustSchedulerStats",
    "RustTaskMeta",
    "RustTaskPolicy",
    "RustTaskState",
    "RustTaskStats",
    "Scheduler",
    "SchedulerStats",
    "SimDevice",
    "SimResult",
    "SimTask",
    "Snapshot",
    "Task",
    "TaskCancelled",
    "TaskDeadlock",
    "TaskError",
    "TaskFuture",
    "TaskInfo",
    "TaskPolicy",
    "TaskScheduler",
    "TaskState",
    "TaskSummary",
    "add_section",
    "configure",
    "context_session",
    "create_context",
    "current_task",
    "default_scheduler",
    "destroy_context",
    "get_context",
    "initialize",
    "is_session_active",
    "list_contexts",
    "partition",
    "publish",
    "reset",
    "session",
    "shutdown",
    "simulate",
    "snapshot",
    "stats",
    "submit",
    "thread_client",
    "unpublish",
]
