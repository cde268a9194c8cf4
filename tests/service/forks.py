"""The fork server of `multiprocessing`: one a process, and so one for all tests of a worker."""

import multiprocessing.forkserver


def fresh_fork_server() -> None:
    """End the fork server of earlier tests: it has not imported what the next ones preload."""
    multiprocessing.forkserver._forkserver._stop()
