"""The GPU as a resource that tasks share.

>>> import pygpukit as gp
>>> task = gp.scheduler.submit(lambda: (gp.ones(3) + 1).to_numpy(), memory=gp.scheduler.MB)
>>> task.result()

`submit` and `Scheduler` run functions on streams of their own, `stats` shows them. What version 0.2
had besides (execution contexts, admission and QoS evaluators, the Rust* names) is adapted to them.
"""

from pygpukit._lazy import lazy_names
from pygpukit._runtime import (
    AdmissionDecision,
    LimitLedger,
    MemoryLedger,
    Partition,
    PartitionConfig,
    PartitionLedger,
    PartitionLimits,
    PartitionManager,
    PartitionStats,
    PartitionUsage,
    QosClass,
    RejectReason,
    RejectReasonDetails,
    TaskInfo,
)
from pygpukit._runtime import SchedulerStats as RustSchedulerStats
from pygpukit.memory.block_pool import GB, HAS_RUST_BACKEND, KB, MB
from pygpukit.scheduler.errors import (
    DeadlineMissed,
    DependencyFailed,
    TaskCancelled,
    TaskDeadlock,
    TaskError,
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
    Scheduler,
    configure,
    default_scheduler,
    shutdown,
    submit,
    thread_client,
)
from pygpukit.scheduler.simulation import SimDevice, SimResult, SimTask, simulate
from pygpukit.scheduler.tasks import TaskPolicy, TaskState

TaskScheduler = Scheduler

TYPE_CHECKING = False  # a name type checkers know; importing typing costs more than this package
if TYPE_CHECKING:
    from pygpukit._compat.admission import AdmissionConfig, AdmissionController, AdmissionStats
    from pygpukit._compat.execution import (
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
        snapshot,
        stats,
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
        RustScheduler,
        RustTaskMeta,
        RustTaskPolicy,
        RustTaskState,
        RustTaskStats,
    )
    from pygpukit._compat.stepped import Task
    from pygpukit.scheduler import execution
else:  # the names of 0.2, which only its users load
    __getattr__ = lazy_names(
        __name__,
        {
            "pygpukit._compat.admission": (
                "AdmissionConfig",
                "AdmissionController",
                "AdmissionStats",
            ),
            "pygpukit._compat.execution": (
                "HAS_MULTI_LLM",
                "AsyncKernelRequest",
                "ContextStats",
                "ExecutionContext",
                "FutureState",
                "KernelFuture",
                "KernelResult",
                "SchedulerStats",
                "context_session",
                "create_context",
                "destroy_context",
                "get_context",
                "initialize",
                "is_session_active",
                "list_contexts",
                "reset",
                "session",
                "snapshot",
                "stats",
            ),
            "pygpukit._compat.qos": (
                "QosEvaluation",
                "QosPolicy",
                "QosPolicyEvaluator",
                "QosStats",
                "QosTaskMeta",
                "ResourceRequirements",
            ),
            "pygpukit._compat.rust_scheduler": (
                "RustScheduler",
                "RustTaskMeta",
                "RustTaskPolicy",
                "RustTaskState",
                "RustTaskStats",
            ),
            "pygpukit._compat.stepped": ("Task",),
        },
        submodules=("execution",),
    )


def __dir__() -> list[str]:
    return sorted(__all__)


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
    "PartitionLedger",
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
    "execution",
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
