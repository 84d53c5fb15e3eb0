"""Where tasks run: in this process, in a pool, or in any executor."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from threading import current_thread, main_thread
from typing import Any, TypeVar

from kvassay.conformance.isolation import worker

T = TypeVar("T")
R = TypeVar("R")


def submitted(
    executor: Executor, function: Callable[[T], R], tasks: Sequence[T], window: int
) -> Iterator[R]:
    """Results in the order of the tasks, with at most `window` tasks in flight."""
    flying: deque[Future[R]] = deque()
    for task in tasks:
        flying.append(executor.submit(function, task))
        if len(flying) >= window:
            yield flying.popleft().result()
    while flying:
        yield flying.popleft().result()


def in_processes(
    function: Callable[[T], R],
    tasks: Sequence[T],
    workers: int,
    failed: Callable[[T, str], R],
) -> Iterator[R]:
    """The same in processes of our own. Where one dies, the tasks that were in flight run again
    one by one, so that only the one that kills its process has failed."""
    done = 0
    while done < len(tasks):
        with process_pool(workers) as pool:
            try:
                for result in submitted(pool, function, tasks[done:], window=4 * workers):
                    yield result
                    done += 1
                return
            except BrokenExecutor:
                pass
            except (KeyboardInterrupt, GeneratorExit):  # tasks in flight may take long, or hang
                _end_now(pool)
                raise
        for task in tasks[done : done + 4 * workers]:  # one of these it was
            with process_pool(1) as pool:
                try:
                    yield pool.submit(function, task).result()
                except BrokenExecutor:
                    yield failed(task, "the backend ended the process it ran in (a crash)")
                except (KeyboardInterrupt, GeneratorExit):
                    _end_now(pool)
                    raise
            done += 1


def _end_now(pool: ProcessPoolExecutor) -> None:
    pool.shutdown(wait=False, cancel_futures=True)
    for child in active_children():
        child.kill()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def process_pool(workers: int) -> ProcessPoolExecutor:
    """Processes for `check(executor=...)`: fresh interpreters, since a forked one inherits
    locks and threads of the libraries in use here."""
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_start_process)


def _start_process() -> None:
    """In a child: what is printed, by C code too, goes to stderr; Ctrl-C is the parent's, and
    so is its end."""
    worker.die_with_parent()
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C, and what acts as Ctrl-C, waits for the end of what is in here."""
    here = current_thread() is main_thread()  # Python runs handlers in no other
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM) if here}
    before = {each: handler for each, handler in handlers.items() if callable(handler)}
    came: list[tuple[Any, ...]] = []
    for each in before:
        signal.signal(each, lambda *arguments: came.append(arguments))
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    if came:
        before[signal.Signals(came[0][0])](*came[0])


@contextmanager
def one_thread() -> Iterator[None]:
    """Libraries loaded in here, or in processes started in here, use one thread."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
