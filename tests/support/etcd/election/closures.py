"""Closures: rules of the protocol that the proposal does not have. The explored system can go without any of them."""

from __future__ import annotations

from enum import Enum


class Closure(Enum):
    """A rule, in one sentence."""

    DEADLINE = "the proxy of etcd has a deadline and shuts by itself, also when the agent is dead"
    FROM_START = "the deadline counts from the start of a read, not from its answer"
    READ_FIRST = "an agent that starts reads the CopyOperation before etcd serves"
    START_WAIT = "its first read waits until a stale store must answer with what an agent before it may have seen"
    MARKER = "absence counts only beside the epoch's first-start marker"
    UNREADABLE = "an object that can't be understood is no absence"
    MEMORY = "who has seen the CopyOperation never takes it for absent again"
    READ_BACK = "a put counts only once it was read"
    FENCE = "without the source's Ready, the destination waits for as long as the source's marker promises"
    PROXY_ANSWER = "the final snapshot is taken after the guard has said that the proxy is shut"
    GRACE = "Ready waits until API servers have ended what they serve from their caches"
    IDLE = "of that wait, only time in which no API server was connected counts, however long one had asked nothing"
    IDLE_GUARD = "a guard that starts counts that time from its start"
    ENDED_SINCE = "that all API servers have ended holds only if none has connected since"
    COMPLETE = "a final snapshot of a restored data directory is not named as final"
    PROGRESS = "the source writes its progress, and the destination's patience counts from it"
    EPOCH_KEYS = "each epoch has a CopyOperation of its own, at its own key"
    EPOCH_PREFIX = "each epoch has snapshots of its own, under its own prefix"
    NO_DELETION = "CopyOperations are never deleted"
    INITIATE_EPOCH = "copyop/initiate names the epoch, and an agent of another one refuses"
    GARDEN_CAS = "the garden lets an epoch start by compare-and-swap, so none that was passed over starts"
    NO_COLLECTION = "the source deletes no snapshots once its CopyOperation exists"


ALL = frozenset(Closure)
NONE: frozenset[Closure] = frozenset()
