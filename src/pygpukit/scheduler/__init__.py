"""The GPU as a shared resource: tasks and partitions.

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
    QosClass,
    RejectReason,
    RejectReasonDetails,
    TaskInfo,
)
from pygpukit._runtime import SchedulerStats as RustSchedulerStats
from pygpukit.memory import GB, HAS_RUST_BACKEND, KB, MB
from pygpukit.scheduler.client import Client, thread_client
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
from pygpukit.scheduler.scheduler import Scheduler
from pygpukit.scheduler.service import configure, default_scheduler, shutdown, submit
from pygpukit.scheduler.simulation import SimDevice, SimResult, SimTask, simulate
from pygpukit.scheduler.tasks import TaskPolicy, TaskState

TaskScheduler = Scheduler

# Names of 0.2 and the modules that define them; `stats` is the default scheduler's, with 0.2's
# fields.
_COMPAT = {
    "pygpukit._compat.admission": (
        *("AdmissionConfig", "AdmissionController", "AdmissionStats", "QosEvaluation"),
        *("QosPolicy", "QosPolicyEvaluator", "QosStats", "QosTaskMeta", "ResourceRequirements"),
    ),
    "pygpukit._compat.execution": (
        *("AsyncKernelRequest", "ContextStats", "ExecutionContext", "HAS_MULTI_LLM"),
        *("KernelFuture", "KernelResult", "SchedulerStats", "context_session"),
        *("create_context", "destroy_context", "get_context", "initialize"),
        *("is_session_active", "list_contexts", "reset", "session", "snapshot", "stats"),
    ),
    "pygpukit._compat.partition": (
        *("Partition", "PartitionConfig", "PartitionLimits", "PartitionManager"),
        *("PartitionStats", "PartitionUsage"),
    ),
    "pygpukit._compat.schedulers": (
        *("RustScheduler", "RustTaskMeta", "RustTaskPolicy", "RustTaskState", "RustTaskStats"),
        "Task",
    ),
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pygpukit._compat.admission import *  # noqa: F403
    from pygpukit._compat.execution import *  # noqa: F403
    from pygpukit._compat.execution import stats as stats
    from pygpukit._compat.partition import *  # noqa: F403
    from pygpukit._compat.schedulers import *  # noqa: F403
    from pygpukit.scheduler import execution as execution

__all__ = [
    "GB",
    "HAS_RUST_BACKEND",
    "KB",
    "MB",
    "AdmissionDecision",
    "Client",
    "DeadlineMissed",
    "DependencyFailed",
    "DevicePartition",
    "LimitLedger",
    "LimitReport",
    "MemoryLedger",
    "PartitionReport",
    "QosClass",
    "RejectReason",
    "RejectReasonDetails",
    "RustSchedulerStats",
    "Scheduler",
    "SimDevice",
    "SimResult",
    "SimTask",
    "Snapshot",
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
    "current_task",
    "default_scheduler",
    "partition",
    "publish",
    "shutdown",
    "simulate",
    "stats",
    "submit",
    "thread_client",
    "unpublish",
]
if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _COMPAT, submodules=("execution",))
    __all__ = sorted({*__all__, *(name for names in _COMPAT.values() for name in names)})
