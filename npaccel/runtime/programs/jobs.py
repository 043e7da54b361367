"""What is asked of the helper process, and what it answers: plain data."""

from __future__ import annotations

from typing import Any, NamedTuple

from npaccel.runtime.programs.kernels import Image
from npaccel.runtime.programs.trace import Requests, RuleText

__all__ = ["LINGERING", "Job", "Kept", "Reply", "Rest", "again", "kept"]

# What the process claims of the cache's folder that goes on compiling when its parent has ended.
LINGERING = "lingering"

# A job as plain data that the cache keeps: what stays of it in another process.
Kept = tuple[Any, ...]


class Job(NamedTuple):
    """Requests to plan and compile. folder: the cache's, empty if there is none.

    key : what `program_key` makes of theirs.
    template : the name of their structure's templates; '' where it has none.
    """

    number: int
    key: str
    requests: Requests
    threads: int
    folder: str
    limit: int
    template: str = ""


def kept(job: Job) -> Kept:
    """What another process needs to have it done."""
    requests = job.requests
    rules = tuple(tuple(text) for text in requests.rules.values())
    return job.key, requests.key, requests.scalars, rules, job.template


def again(what: Kept, threads: int, folder: str, limit: int, number: int) -> Job:
    """The job that was kept, as one of this process."""
    key, words, scalars, rules, template = what
    texts = {rule[0]: RuleText(*rule) for rule in rules}
    return Job(number, key, Requests(words, scalars, texts), threads, folder, limit, template)


class Rest(NamedTuple):
    """The last message: what is to be done when who sent it has ended.

    entry : of the cache: a StartupProfile with jobs.
    seconds : that there are for them.
    """

    entry: str
    threads: int
    folder: str
    limit: int
    seconds: float


class Reply(NamedTuple):
    """What came of a job: a packed Outcome and code by kernels' keys, or why there is none, or only
    with kernels cut into smaller ones.

    outcome : without the requests: who asked has them.
    compiled : how many kernels were compiled, not found on disk.
    seconds, requests : how long it took, for how many requests.
    text : with an error, the trace and its (first) plan to read.
    rejected : with an error, the first request of the kernel that was rejected first, and its name.
    template : a packed Template of it and its structure's name, if there is one; None instead of
        the first where it is on disk.
    """

    number: int
    outcome: bytes | None
    images: dict[str, Image]
    compiled: int
    seconds: float
    requests: int
    error: str = ""
    text: str = ""
    template: tuple[str, bytes | None] | None = None
    rejected: tuple[int, str] = (-1, "")
