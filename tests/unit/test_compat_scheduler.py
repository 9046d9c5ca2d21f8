"""Sections 14 and 17.2 of the 0.2 API: the two classes named Scheduler and their tasks."""

from __future__ import annotations

import threading
import time

import pytest

from _pygpukit_rust import Scheduler as RustScheduler
from _pygpukit_rust import SchedulerStats, TaskMeta, TaskStats
from _pygpukit_rust.scheduler import RejectReason, TaskPolicy, TaskState
from pygpukit import scheduler
from pygpukit.scheduler import GB, KB, MB, Scheduler, Task, TaskFuture

# --- section 14: pygpukit.scheduler.Scheduler ---------------------------------------------------


def test_values() -> None:
    assert (KB, MB, GB) == (2**10, 2**20, 2**30)
    assert scheduler.HAS_RUST_BACKEND is True
    names = ("PENDING", "QUEUED", "RUNNING", "COMPLETED", "FAILED")
    assert [scheduler.TaskState[name].value for name in names] == [n.lower() for n in names]
    policies = [policy.value for policy in scheduler.TaskPolicy]
    assert policies == ["guaranteed", "burstable", "best_effort"]


def test_task() -> None:
    task = Task(len)
    assert (task.memory, task.bandwidth, task.last_launch) == (None, None, 0.0)
    assert (task.policy, task.state) == (
        scheduler.TaskPolicy.BEST_EFFORT,
        scheduler.TaskState.PENDING,
    )
    assert (task.execution_count, task.pacing_delay_count) == (0, 0)
    assert len(task.id) == 8
    assert task.id != Task(len).id
    before = time.time()
    task.touch()
    assert task.last_launch >= before


def test_arguments() -> None:
    sched = Scheduler(2.0, 20.0, GB)
    assert (sched.sched_tick_ms, sched.window_ms, sched.total_memory) == (2.0, 20.0, GB)
    sched = Scheduler(window_ms=5.0)
    assert (sched.sched_tick_ms, sched.window_ms, sched.total_memory) == (1.0, 5.0, None)
    assert sched.available_memory == 2**64 - 1
    assert isinstance(sched, Scheduler)
    assert scheduler.TaskScheduler is Scheduler
    with pytest.raises(TypeError):
        Scheduler(window_ms=5.0, workers=2)  # arguments of both kinds


def test_nothing_runs_before_step_and_then_on_the_callers_thread() -> None:
    sched = Scheduler(total_memory=GB)
    threads: list[threading.Thread] = []
    task_id = sched.submit(lambda: threads.append(threading.current_thread()), memory=MB)
    assert isinstance(task_id, str)
    time.sleep(0.01)
    assert not threads
    assert sched.get_task(task_id).state is scheduler.TaskState.PENDING
    sched.step()
    assert threads == [threading.current_thread()]


def test_without_arguments_it_is_the_new_one_and_0_2_code_still_reads_it() -> None:
    with Scheduler() as sched:
        assert (sched.sched_tick_ms, sched.window_ms, sched.total_memory) == (1.0, 10.0, None)
        ran: list[int] = []
        ids = [sched.submit(lambda i=i: ran.append(i), memory=MB) for i in range(3)]
        failed = sched.submit(lambda: 1 / 0, policy="guaranteed")
        assert isinstance(failed, TaskFuture)
        sched.step()
        assert sorted(ran) == [0, 1, 2]
        assert (sched.task_count, sched.completed_count, sched.reserved_memory) == (4, 3, 0)
        assert sched.available_memory > 0
        task = sched.get_task(ids[0])
        assert (task.state, task.execution_count) == (scheduler.TaskState.COMPLETED, 1)
        assert (task.memory, task.policy) == (MB, scheduler.TaskPolicy.BEST_EFFORT)
        stats = sched.stats(failed)
        assert (stats["id"], stats["state"], stats["policy"]) == (failed, "failed", "guaranteed")
        assert sched.stats("nothing") == {}
        assert sched.get_task("nothing") is None
        assert sched.global_stats()["failed_count"] == 1
        assert not sched.should_run(task, time.time())
        assert sched.stats().counts["completed"] == 3


def test_steps_run_functions_in_order_once_each() -> None:
    sched = Scheduler(sched_tick_ms=2.0, window_ms=20.0, total_memory=GB)
    ran: list[int] = []
    ids = [sched.submit(lambda i=i: ran.append(i), memory=MB) for i in range(12)]
    assert all(len(i) == 8 and int(i, 16) >= 0 for i in ids)
    assert sched.task_count == 12
    assert sched.reserved_memory == 12 * MB
    assert sched.available_memory == GB - 12 * MB
    sched.step()
    assert ran == list(range(10))
    sched.step()
    assert ran == list(range(12))
    sched.step()
    assert ran == list(range(12))
    assert sched.completed_count == 12
    assert sched.reserved_memory == 0
    task = sched.get_task(ids[0])
    assert task is not None
    assert task.state is scheduler.TaskState.COMPLETED
    assert task.execution_count == 1
    assert task.last_launch > 0
    assert sched.get_task("nothing") is None


def test_an_exception_ends_its_task_as_failed_and_others_go_on() -> None:
    sched = Scheduler(window_ms=10.0)

    def bad() -> None:
        raise ValueError("boom")

    first, second = sched.submit(bad, memory=MB), sched.submit(lambda: None, memory=MB)
    sched.step()
    assert sched.stats(first)["state"] == "failed"
    assert sched.stats(second)["state"] == "completed"
    assert sched.reserved_memory == 0
    stats = sched.global_stats()
    assert (stats["failed_count"], stats["completed_count"], stats["pending_count"]) == (1, 1, 0)
    assert (stats["task_count"], stats["running_count"], stats["reserved_memory"]) == (2, 0, 0)
    assert (stats["sched_tick_ms"], stats["window_ms"], stats["total_memory"]) == (1.0, 10.0, None)
    assert stats["avg_wait_time"] >= 0.0
    assert stats["avg_exec_time"] >= 0.0


def test_stats_of_a_task() -> None:
    sched = Scheduler(total_memory=GB)
    number = sched.submit(lambda: None, memory=MB, bandwidth=0.5, policy="guaranteed")
    stats = sched.stats(number)
    assert stats["id"] == number
    assert (stats["state"], stats["memory"], stats["bandwidth"]) == ("pending", MB, 0.5)
    assert (stats["policy"], stats["execution_count"]) == ("guaranteed", 0)
    assert {"pacing_delay_count", "last_launch", "wait_time", "exec_time"} <= set(stats)
    assert sched.stats("nothing") == {}
    assert sched.get_task(sched.submit(lambda: None, policy="nonsense")).policy is (
        scheduler.TaskPolicy.BEST_EFFORT
    )
    assert sched.global_stats()["total_memory"] == GB
    assert Scheduler(1.0).global_stats()["available_memory"] == 2**64 - 1


def test_more_memory_than_there_is_waits_or_is_refused() -> None:
    sched = Scheduler(total_memory=10 * MB)
    with pytest.raises(MemoryError, match="20"):
        sched.submit(lambda: None, memory=20 * MB)
    ran: list[str] = []
    sched.submit(lambda: ran.append("a"), memory=8 * MB)
    sched.submit(lambda: ran.append("b"), memory=8 * MB)
    assert sched.reserved_memory == 8 * MB
    sched.step()
    assert ran == ["a", "b"]


def test_should_run_paces_by_the_window() -> None:
    sched = Scheduler(window_ms=100.0)
    task = Task(lambda: None, bandwidth=0.5)
    now = time.time()
    assert not sched.should_run(task, now)
    task.state = scheduler.TaskState.RUNNING
    task.last_launch = now
    assert not sched.should_run(task, now + 0.049)
    assert task.pacing_delay_count == 1
    assert sched.should_run(task, now + 0.051)
    task.bandwidth = None
    assert sched.should_run(task, now)


# --- section 17.2: _pygpukit_rust.Scheduler -----------------------------------------------------


def test_numbers_of_enumerations() -> None:
    states = ("Pending", "Running", "Completed", "Failed", "Cancelled")
    assert [int(TaskState[name]) for name in states] == [0, 1, 2, 3, 4]
    assert [int(TaskPolicy[name]) for name in ("Fifo", "Sjf", "Priority")] == [0, 1, 2]
    assert TaskState.Running == 1


def test_names_of_the_modules_are_the_same_classes() -> None:
    assert scheduler.RustScheduler is RustScheduler
    assert scheduler.RustTaskMeta is TaskMeta
    assert scheduler.RustTaskState is TaskState
    assert scheduler.RustTaskPolicy is TaskPolicy
    assert scheduler.RustSchedulerStats is SchedulerStats
    assert scheduler.RustTaskStats is TaskStats


def test_a_task_is_read_only() -> None:
    task = TaskMeta(id="a", name="first", memory_estimate=5, priority=2, dependencies=["b"])
    assert (task.id, task.name, task.memory_estimate, task.priority) == ("a", "first", 5, 2)
    assert (task.started_at, task.completed_at, task.error) == (None, None, None)
    assert abs(task.submitted_at - time.time()) < 60.0
    assert (task.elapsed(), task.duration(), task.is_terminal()) == (0.0, None, False)
    assert TaskMeta("c", "no dependencies").dependencies == []
    with pytest.raises(AttributeError):
        task.id = "other"  # type: ignore[misc]


def test_snippet_of_the_old_readme() -> None:
    import _pygpukit_rust as rust

    sched = rust.Scheduler(sched_tick_ms=10.0, window_ms=100.0, total_memory=8 * 1024**3)
    task = rust.TaskMeta(id="task-1", name="matmul", memory_estimate=256 * 1024**2, priority=1)
    assert sched.submit(task) == "task-1"
    for task_id in sched.get_runnable_tasks(max_tasks=4):
        sched.start_task(task_id)
        sched.complete_task(task_id)
    stats = sched.stats()
    assert stats.completed_count == 1
    assert stats.reserved_memory == 0

    admission = rust.AdmissionController(
        rust.AdmissionConfig(max_memory=8 * 1024**3, max_bandwidth=1.0)
    )
    decision = admission.try_admit("task-1", 1024**3, 0.1)
    assert decision.is_admitted()
    admission.release("task-1")

    manager = rust.PartitionManager(rust.PartitionConfig(total_memory=8 * 1024**3))
    limits = rust.PartitionLimits().memory(4 * 1024**3).compute(0.5).bandwidth(0.5)
    manager.create_partition("inference", "Inference", limits)
    manager.assign_task("task-1", "inference")
    assert manager.get_task_partition("task-1") == "inference"

    evaluator = rust.QosPolicyEvaluator(total_memory=8 * 1024**3, total_bandwidth=1.0)
    evaluation = evaluator.evaluate(rust.QosTaskMeta.guaranteed("t", "critical", 512 * 1024**2))
    assert evaluation.is_admitted()
    evaluator.reserve(evaluation)


def test_states_and_reservations() -> None:
    sched = RustScheduler(total_memory=GB)
    assert (sched.sched_tick_ms, sched.window_ms, sched.total_memory) == (10.0, 100.0, GB)
    task = TaskMeta("a", "first", 100 * MB, 5, ["unknown"])
    assert (task.state, task.policy, task.dependencies) == (
        TaskState.Pending,
        TaskPolicy.Fifo,
        ["unknown"],
    )
    assert sched.submit(task) == "a"
    assert sched.stats().reserved_memory == 100 * MB
    assert sched.should_run("a")
    assert sched.start_task("a")
    assert not sched.start_task("a")
    assert sched.get_task_state("a") == TaskState.Running
    assert sched.task_stats("a").memory_used == 100 * MB
    running = sched.get_task("a")
    assert running.elapsed() >= 0.0
    assert running.started_at >= running.submitted_at
    assert running.duration() is None
    assert sched.complete_task("a")
    done = sched.get_task("a")
    assert done.is_terminal()
    assert done.duration() >= 0
    assert done.elapsed() == pytest.approx(done.duration())
    stats = sched.stats()
    assert (stats.total_submitted, stats.completed_count, stats.pending_count) == (1, 1, 0)
    assert (stats.reserved_memory, stats.available_memory) == (0, GB)
    assert stats.avg_wait_time >= 0.0
    assert stats.avg_exec_time >= 0.0
    assert sched.task_stats("a").memory_used == 0
    for call in (sched.start_task, sched.complete_task, sched.cancel_task):
        assert not call("a")
        assert not call("nothing")
    assert not sched.fail_task("a", "late")
    assert sched.get_task("nothing") is None
    assert sched.get_task_state("nothing") is None
    assert sched.task_stats("nothing") is None
    with pytest.raises(ValueError, match="in use"):
        sched.submit(TaskMeta("a", "again"))


@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_leaving_a_live_state_releases_the_reservation(start: bool, end: str) -> None:
    sched = RustScheduler(total_memory=GB)
    sched.submit(TaskMeta("a", "a", MB))
    if start:
        assert sched.start_task("a")
    assert sched.fail_task("a", "broken") if end == "fail" else sched.cancel_task("a")
    stats = sched.stats()
    assert stats.reserved_memory == 0
    assert (stats.failed_count, stats.cancelled_count) == (int(end == "fail"), int(end != "fail"))
    assert sched.get_task("a").error == ("broken" if end == "fail" else "cancelled")


def test_a_failed_dependency_fails_its_dependents_with_a_reason() -> None:
    sched = RustScheduler()
    for number, needs in (("a", []), ("b", ["a"]), ("c", ["b"])):
        sched.submit(TaskMeta(number, number, 0, 0, needs))
    assert sched.get_runnable_tasks(5) == ["a"]
    assert not sched.should_run("b")
    sched.fail_task("a", "no luck")
    assert sched.get_task_state("c") == TaskState.Failed
    assert "no luck" in sched.get_task("c").error
    assert sched.get_runnable_tasks(5) == []


def test_dependencies_are_met_when_completed_or_unknown() -> None:
    sched = RustScheduler()
    sched.submit(TaskMeta("a", "a"))
    sched.submit(TaskMeta("b", "b", 0, 0, ["a", "unknown"]))
    assert sched.get_runnable_tasks(5) == ["a"]
    sched.complete_task("a")
    assert sched.get_runnable_tasks(5) == ["b"]
    assert sched.get_task("b").dependencies == ["a", "unknown"]


def test_fifo_and_max_tasks() -> None:
    sched = RustScheduler()
    for number in range(5):
        sched.submit(TaskMeta(str(number), "t", 0, number))
    assert sched.get_runnable_tasks() == ["0"]
    assert sched.get_runnable_tasks(2) == ["1", "2"]
    assert sched.stats().running_count == 3
    stats = sched.task_stats("0")
    assert (stats.id, stats.name, stats.state) == ("0", "t", TaskState.Running)
    assert stats.exec_time >= 0
    assert stats.wait_time >= 0
    sched.clear()
    assert sched.get_task("0") is None
    assert sched.submit(TaskMeta("0", "t")) == "0"  # the id is free again
    sched.clear()
    assert sched.stats().total_submitted == 0


def test_admission() -> None:
    sched = RustScheduler(total_memory=100 * MB)
    first = sched.admit(TaskMeta("a", "a", 60 * MB))
    assert first.is_admitted()
    assert first.reserved_memory == 60 * MB
    queued = sched.evaluate_admission(TaskMeta("b", "b", 60 * MB))
    assert queued.is_queued()
    assert queued.decision_type == "Queue"
    assert sched.stats().total_submitted == 1
    assert sched.admit(TaskMeta("b", "b", 60 * MB)).is_queued()
    never = sched.admit(TaskMeta("c", "c", 200 * MB))
    assert never.is_rejected()
    assert never.reject_reason() == RejectReason.InsufficientMemory
    assert "MiB" in never.rejection_reason.message()
    stats = sched.admission_stats()
    assert (stats.admitted_count, stats.queued_count, stats.rejected_count) == (1, 1, 1)
    assert (stats.pending_count, stats.reserved_memory) == (2, 60 * MB)
    assert stats.available_memory == 40 * MB
    with pytest.raises(ValueError, match="'a'"):
        sched.admit(TaskMeta("a", "again"))
    sched.start_task("a")
    sched.complete_task("a")
    assert sched.get_runnable_tasks(5) == ["b"]
