"""Flows as data: graphs of named tasks, each of which observes objects before it acts.

A flow is a `Flow`, made once when its module is imported: tasks and the tasks that each depends on (`graph.py`). It has
no state. Each reconcile runs it from its first task (`runner.py`), and what is done already says so at once, because a
task looks at objects and at nothing else. So any process can continue a flow wherever another one stopped.

A task is evaluated from a scope, purely, to one of these (`task.py`):

- `Done`: what the task is for exists. Tasks that depend on it may start.
- `Action`: something has to be done. It is run once in a reconcile, and its result counts as the task's from then on:
  `Continue` is done, `Wait` has the task evaluated again from what is observed afterwards.
- `Wait`: the effect of an action, or something that others do, is not there yet. The reconcile ends; an event of a
  watch, or a timer of `after` seconds, begins the next one.
- `Overdue`: a wait that lasts longer than it should. Reported as an error, and waited for all the same.
- `Failure`: it can't be done now. Tasks that depend on it are blocked, all others go on. It is tried again with
  back-off, unless a code says that somebody has to change something first.

A task whose `skip` gives a reason counts as done. A guard, where a flow has one, is asked before each action.

One run is a loop: observe, evaluate all tasks whose dependencies are over, run the actions that are due at the same
time, and again, until no task has an action that was not run yet. The result is a `FlowStatus` (`status.py`): the state
of each task (done, skipped, waiting, overdue, failed, blocked), from which progress, `status.lastOperation`,
`status.lastErrors` and the outcome of the reconcile follow. `espalier shoots flow` reads it back from there, and
`drawing.py` draws it.
"""
