"""Reasons that the garden, gardenlets and extensions report on Gardener's kinds: constants, with their prose.

The prose of a reason has the sections it belongs to, the condition for progress, and the meaning. One name may mean
different things in several sections. `make pages` writes `docs/reference/gardener/conditions.md` from it, and
`tests/conventions` compares it with the code.
"""

from __future__ import annotations

from collections.abc import Mapping

from espalier.api.definitions.reference import Prose, Reason, Remedy
from espalier.api.gardener.vocabulary.operations import ErrorCode

SHOOT = "Shoot"
TASK = "Tasks of a Shoot's operation"
SEED = "Seed"
BACKUPS = "BackupBucket, BackupEntry"
STATE = "ShootState"
ETCD = "Etcd"
EXTENSION = "Extension kinds"
MACHINE = "Machine kinds"
CONTROLLERS = "Controllers of Shoots and Seeds"

WHERE: Mapping[str, str] = {
    SHOOT: "Conditions in `status.conditions`, the constraint `ReadyForMigration` in `status.constraints`. "
    "`espalier shoots describe` shows both. `Progressing` is a status like `False`, while an operation is in progress.",
    TASK: "In `status.lastOperation.description`, for each task that has not finished: `TASK (REASON): message`. "
    "`espalier shoots flow` draws the tasks, `espalier shoots describe` has the errors of `status.lastErrors`. A "
    "gardenlet that removes what a lost shoot has left in its seed has the same reasons, in its log alone.",
    SEED: "Conditions in `status.conditions`.",
    BACKUPS: "They have no conditions. `status.lastOperation` and `status.lastError` have the message of "
    "`BucketMissing`, `BucketNotReady` and `CredentialsMissing`, otherwise what the extension reports. Reasons are in "
    "the gardenlet's log.",
    STATE: "It has no status. Reasons are in the logs of the gardenlet and, for Secrets with states, of the garden; "
    "those that last are in the message of the Shoot's condition `ReadyForDisaster`.",
    ETCD: "Conditions `Ready` and `DataVolumesReady`; a failure is in `status.lastErrors` as well.",
    EXTENSION: "ControlPlane, DNSRecord, Extension, Infrastructure, Network, OperatingSystemConfig, Worker, and the "
    "BackupBuckets and BackupEntries of seeds, as the library of [extensions.md](../../extensions.md) and the "
    "extensions of type `local` report them. Condition `LeaseValid` has the reasons `ClockSkew`, `ClusterMissing`, "
    "`LeaseExpired`, `LeaseMissing` and `ShootMigrating`, `DependentsKept` has `ObjectsDeleting`. "
    "Of `PlanOutdated`, `ShootFailed` and `Superseded` only the log tells; of all "
    "others `status.lastOperation` and `status.lastError` have the message, and the log the reason.",
    MACHINE: "Machine, MachineClass, MachineDeployment and MachineSet have no conditions: replicas and the phase of a "
    "Machine (`Pending`, `Running`, `Failed`, `Terminating`) are in their status. Reasons are in the log of the "
    "machine controller manager.",
    CONTROLLERS: "In the logs of the garden and of gardenlets alone.",
}
"""The sections, in order, and where their reasons are found."""


def _person(name: str, meaning: str, *kinds: str) -> Prose:
    return Prose(name, Remedy.PERSON, meaning, kinds or (SHOOT,))


def _change(name: str, meaning: str, *kinds: str) -> Prose:
    return Prose(name, Remedy.CHANGE, meaning, kinds or (SHOOT,))


def _time(name: str, meaning: str, *kinds: str) -> Prose:
    return Prose(name, Remedy.TIME, meaning, kinds or (SHOOT,))


class ShootReason(Reason):
    """Of the conditions of a Shoot."""

    # Constraint ReadyForMigration.
    DESTINATION_SEED_MISSING = _person(
        "DestinationSeedMissing", "there is no Seed of the name in `spec.seedName`; name another one", SHOOT, TASK
    )
    DESTINATION_SEED_IN_DELETION = _person(
        "DestinationSeedInDeletion",
        "the Seed in `spec.seedName` is being deleted; name another one, or the seed that has the shoot",
        SHOOT,
        TASK,
    )
    DESTINATION_SEED_UNREADY = _person(
        "DestinationSeedUnready",
        "the destination can't take the shoot yet: its gardenlet does not renew its Lease, its Seed has no "
        "`spec.backup`, or its BackupBucket is not ready. Nothing was stopped; repair it, or name the seed that has "
        "the shoot, which cancels the move",
        SHOOT,
        TASK,
    )
    MOVE_REFUSED = _change(
        "MoveRefused",
        "admission would refuse the move, for what the message says: it was requested while no webhook was called, or "
        "the garden has changed since. Nothing was stopped; name the seed that has the shoot again, or another one",
        SHOOT,
        TASK,
    )
    # APIServerAvailable, ControlPlaneHealthy, EveryNodeReady, SystemComponentsHealthy.
    OPERATION_IN_PROGRESS = _time(
        "OperationInProgress", "an operation is in progress, during which parts may be down (status `Progressing`)"
    )
    DEPLOYMENT_NOT_AVAILABLE = _time(
        "DeploymentNotAvailable",
        "`kube-apiserver` has no available pod in the seed; if that lasts, look at its pods and at etcd-main",
    )
    COMPONENTS_NOT_READY = _time(
        "ComponentsNotReady",
        "the message names what is not available: of the control plane in the seed (`ControlPlaneHealthy`), or in the "
        "shoot's `kube-system` (`SystemComponentsHealthy`); if that lasts, look at its pods",
    )
    OBJECTS_DELETING = _person(
        "ObjectsDeleting",
        "somebody has deleted objects of the shoot in its seed, and finalizers or use hold them, for longer than a "
        "minute. All of it comes back once they are gone. The message names each, what holds it and what to do",
    )
    NODES_NOT_READY = _time(
        "NodesNotReady", "the message names up to ten nodes that are not ready; if that lasts, look at their kubelets"
    )
    NODES_MISSING = _time(
        "NodesMissing",
        "there are fewer nodes than the minimum of all workers; if that lasts, look at the Worker and its Machines in "
        "the seed",
    )
    API_SERVER_UNREACHABLE = _time(
        "APIServerUnreachable",
        "the gardenlet does not reach the shoot's API server, so nodes and components are not known (Unknown); see "
        "`APIServerAvailable`",
    )
    # ReadyForDisaster.
    SEED_MISSING = _person(
        "SeedMissing",
        "the Seed was deleted although it has the shoot, while no webhook was called. Only it tells where backups are "
        "(its gardenlet leaves etcd as it is); register it again under this name, or move the shoot (`espalier seeds "
        "evacuate`)",
        SHOOT,
        TASK,
    )
    BUCKET_UNREADABLE = _person(
        "BucketUnreadable",
        "the backups can't be read with the credentials that another seed would get; correct the Secret that the "
        "BackupBucket names (`spec.credentialsRef`), or what the message says",
    )
    BUCKET_NOT_REACHED_BY_OTHERS = _person(
        "BucketNotReachedByOthers",
        "no other seed that is ready, could take the shoot and has tried reaches the store of its bucket. The message "
        "says why for each: let one of their networks reach it",
    )
    STORE_UNREADABLE = _person(
        "StoreUnreadable",
        "etcd's agent can't read its bucket, and etcd serves nobody once `validity` has passed; make the bucket "
        "reachable from the seed. The agent's `/healthz` says more",
    )
    NO_FULL_SNAPSHOT = _time(
        "NoFullSnapshot",
        "etcd's agent has stored no full snapshot yet; if that lasts, its `/healthz` says why",
    )
    STATE_NOT_PERSISTED = _person(
        "StateNotPersisted",
        "the ShootState in the garden does not have what the extensions have in the seed, and can't be written; the "
        "message says why. It is compared every minute, and what is missing or older in it is written again",
    )
    BACKUPS_LATE = _person(
        "BackupsLate",
        "writes since the time in the message, which stays the same while this lasts, are in no snapshot, for longer "
        "than two delta periods and 20 s, and would be lost with the seed; the agent's `/healthz` says why snapshots "
        "fail",
    )
    BUCKET_NOT_TESTED = _person(
        "BucketNotTested",
        "neither can the seed's gardenlet read buckets of this kind, nor has another seed tried to reach the store "
        "(Unknown): only a drill tells",
    )
    AGENT_UNREACHABLE = _time(
        "AgentUnreachable",
        "the agent of etcd-main does not report on its backups (Unknown); if that lasts, check whether its pod runs",
    )
    # All conditions of a gardenlet.
    STATUS_UNKNOWN = _person(
        "StatusUnknown",
        "the gardenlet of its seed has stopped renewing its Lease, so nobody knows (Unknown); start it again, or move "
        "the shoots",
    )
    SEED_GIVEN_UP = _time(
        "SeedGivenUp", "its seed was given up, and the gardenlet of the next one has not reported yet (Unknown)"
    )
    HANDED_OVER = _time(
        "HandedOver", "another seed has the shoot now, and its gardenlet has not reported yet (Unknown)"
    )


class TaskReason(Reason):
    """Of the tasks of a Shoot's operation."""

    OBJECT_WRITTEN = _time("ObjectWritten", "the task has just written something and waits until it is observed", TASK)
    TASK_FAILED = _person(
        "TaskFailed",
        "the task failed. It is retried for 12 hours, unless one of its error codes says that this is pointless; then "
        "the operation is `Failed`: remove the cause, and annotate the Shoot with `gardener.cloud/operation=retry`",
        TASK,
    )
    PLAN_OUTDATED = _time("PlanOutdated", "objects were changed at the same time; they are read again", TASK)
    DELETING = _time(
        "Deleting",
        "an object that has to go, or to be recreated, is still being deleted; if that lasts, its finalizers name who "
        "holds it. For an Infrastructure see [migration.md](../../migration.md#what-can-happen)",
        TASK,
    )
    # Destination, and every seed that has a shoot.
    EPOCH_MISSING = _time(
        "EpochMissing",
        "the garden has not added an ownership epoch for this seed yet; if that lasts, check whether `espalier garden` "
        "runs",
        TASK,
    )
    BACKUP_ENTRY_NOT_READY = _time(
        "BackupEntryNotReady",
        "the seed can't use the bucket of the BackupEntry yet, for what the message says; if its credentials are "
        "gone, empty or expired, correct the Secret that the BackupBucket names (`spec.credentialsRef`)",
        TASK,
    )
    BUCKET_MISSING = _time(
        "BucketMissing",
        "the BackupBucket of the seed does not exist; its gardenlet creates it from `spec.backup` of the Seed",
        TASK,
    )
    COPYING = _time(
        "Copying",
        "the source's backups are being copied; after 10 s the message has what the copying agent waits for, or what "
        "is missing or damaged: see [migration.md](../../migration.md#what-can-happen)",
        TASK,
    )
    SOURCE_LEASE_NOT_EXPIRED = _time(
        "SourceLeaseNotExpired",
        "extensions of a source that did not hand over may act until their lease ends (`leaseWait`), and nothing must "
        "act twice",
        TASK,
    )
    EPOCH_NOT_STARTED = _time(
        "EpochNotStarted", "the start of the epoch has been recorded in the garden, and is not observed yet", TASK
    )
    ETCD_NOT_READY = _time(
        "EtcdNotReady",
        "etcd-main does not serve yet; after 10 s the message has its errors and what its agent says: see "
        "[migration.md](../../migration.md#what-can-happen)",
        TASK,
    )
    EXTENSION_NOT_READY = _time(
        "ExtensionNotReady",
        "the extension has not finished the requested operation; if that lasts, look at the resource's status in the "
        "seed, its condition `LeaseValid`, and whether the extension runs. After 10 minutes `status.lastErrors` has "
        "it, with what the extension last said; it is waited for all the same, without end",
        TASK,
    )
    RESULTS_CHANGED = _time(
        "ResultsChanged",
        "somebody changed a result in the status of an extension resource, such as `status.providerStatus`. It is not "
        "passed on, and the extension reports its own again; if that lasts, request it as the message says",
        TASK,
        BACKUPS,
    )
    DEPLOYMENT_NOT_AVAILABLE = _time(
        "DeploymentNotAvailable",
        "a program of the control plane does not run yet; if that lasts, look at its pods in the seed",
        TASK,
    )
    NODES_NOT_CONNECTED = _time(
        "NodesNotConnected",
        "the nodes in the message have not found the new API server. Controllers that would replace them start after "
        "2 minutes in any case; check DNS as those nodes see it",
        TASK,
    )
    # Source.
    CREDENTIALS_MISSING = _person(
        "CredentialsMissing",
        "the Secret in the garden with which another seed would read the backups is gone or empty. Nothing was "
        "stopped; create it again",
        TASK,
    )
    EXTENSION_NOT_INSTALLED = _person(
        "ExtensionNotInstalled",
        "by the ControllerRegistrations and ControllerInstallations of the garden, the destination has no healthy "
        "extension for the kinds and types in the message. Nothing was stopped; install it there, or name another seed",
        TASK,
    )
    PODS_STOPPING = _time(
        "PodsStopping",
        "pods of a stopped program still run or terminate; if that lasts, look at the kubelet of their node",
        TASK,
    )
    STATE_NOT_PERSISTED = _time(
        "StateNotPersisted",
        "the state of the resources in the message is not in the ShootState yet; if that lasts, see the Events of the "
        "Shoot and reason `ShootStateUnusable` in the gardenlet's log",
        TASK,
    )
    NOT_MIGRATED = _time(
        "NotMigrated",
        "an extension has not migrated its resource yet: deleting it would delete the infrastructure behind it; if "
        "that lasts, check whether the extension runs",
        TASK,
    )
    AGENT_UNREACHABLE = _time(
        "AgentUnreachable",
        "etcd's agent does not answer the request to hand over; it is repeated until `copyTimeout`, then the move goes "
        "on without a final snapshot",
        TASK,
    )
    FINAL_SNAPSHOT = _time(
        "FinalSnapshot",
        "etcd's agent is closing etcd and stores the final snapshot, until `copyTimeout`; the message has what it "
        "waits for",
        TASK,
    )
    SUCCESSOR_NOT_STARTED = _time(
        "SuccessorNotStarted",
        "the seed has lost the shoot, and keeps its etcd until the next seed has started its own",
        TASK,
    )


class SeedReason(Reason):
    """Of the conditions of a Seed."""

    SEED_STATUS_UNKNOWN = _person(
        "SeedStatusUnknown",
        "its gardenlet has not renewed its Lease for `--heartbeat-grace` (40 s), or has never created it (Unknown); "
        "check whether it runs and reaches the garden",
        SEED,
    )
    CLOCK_SKEW = _person(
        "ClockSkew",
        "the clock of its gardenlet, or the garden's, is wrong by more than 5 s: leases of extensions end too early or "
        "too late. Have all machines follow a time server",
        SEED,
    )
    SHOOTS_LEFT = _time(
        "ShootsLeft",
        "the gardenlet removes what shoots have left that the seed no longer has: those in the message. If that lasts, "
        "see the objects in the seed; a Seed whose cluster is gone for good is deleted with annotation "
        '`confirmation.gardener.cloud/deletion: "true"`',
        SEED,
    )
    BUCKET_NOT_REACHED = _person(
        "BucketNotReached",
        "the network of this seed does not reach the store of the other one; let it reach what the message names. It "
        "is tried again within 75 s",
        SEED,
    )
    ENDPOINT_UNKNOWN = _person(
        "EndpointUnknown",
        "the Seed of the other one does not tell where its store is (Unknown): without "
        "`spec.backup.providerConfig.endpoint` only S3 by region, GCS and folders are known; set or correct it",
        SEED,
    )


class BackupReason(Reason):
    """Of BackupBuckets and BackupEntries."""

    CREDENTIALS_CHECK_SCHEDULED = _time(
        "CredentialsCheckScheduled",
        "nothing to do: the Secret with the credentials of the bucket is read again every minute",
        BACKUPS,
    )
    RIGHTS_MISSING = _time(
        "RightsMissing", "the garden has not granted the seed access to the BackupEntry yet", BACKUPS
    )
    NAMESPACE_NOT_DELETED = _time(
        "NamespaceNotDeleted",
        "the BackupEntry has moved to another seed, but the shoot's namespace is still here; its credentials stay "
        "until it is gone, for its agent may need them",
        BACKUPS,
    )
    BUCKET_MISSING = _person(
        "BucketMissing", "`spec.bucketName` names no BackupBucket; correct it, or restore the BackupBucket", BACKUPS
    )
    BUCKET_NOT_TRUSTED = _person(
        "BucketNotTrusted",
        "the status of another seed's BackupBucket, which that seed writes, names a server that neither its Seed names "
        "nor is the provider's own: nothing is sent there. If the server is right, name it in `spec.backup."
        "providerConfig` of that Seed",
        BACKUPS,
    )
    BUCKET_NOT_READY = _time(
        "BucketNotReady", "the BackupBucket is not ready; the message has the error of its extension", BACKUPS, TASK
    )
    CREDENTIALS_MISSING = _person(
        "CredentialsMissing",
        "the Secret of the garden that the BackupBucket names is missing or empty; create it. It is looked for every "
        "5 s",
        BACKUPS,
    )
    BACKUP_ENTRY_MIGRATING = _time(
        "BackupEntryMigrating",
        "another seed has the BackupEntry, and the extension of this one has not migrated it yet; the data stay",
        BACKUPS,
    )
    DELETING = _time(
        "Deleting", "the extension resource is being deleted, or recreated; if that lasts, see its status", BACKUPS
    )
    PLAN_OUTDATED = _time("PlanOutdated", "objects were changed at the same time; they are read again", BACKUPS)
    STATUS_NOT_WRITTEN = _time(
        "StatusNotWritten",
        "the garden did not accept the status; the message has its answer, and it is retried",
        BACKUPS,
    )


class StateReason(Reason):
    """Of ShootStates."""

    SHOOT_STATE_MISSING = _time(
        "ShootStateMissing", "the ShootState does not exist yet: the shoot's flow creates it with the secrets", STATE
    )
    RIGHTS_MISSING = _time("RightsMissing", "the garden has not granted the seed access to the ShootState yet", STATE)
    PLAN_OUTDATED = _time("PlanOutdated", "objects were changed at the same time; they are read again", STATE)
    CACHE_NOT_SYNCED = _time(
        "CacheNotSynced", "a kind of extension was installed just now, and its resources are not known yet", STATE
    )
    EPOCH_OUTDATED = _time(
        "EpochOutdated",
        "the ShootState belongs to a later epoch: another seed has the shoot, and writes it. Or somebody has changed "
        "an epoch; the message says which annotation to restore",
        STATE,
    )
    SHOOT_STATE_UNUSABLE = _person(
        "ShootStateUnusable",
        "the ShootState can't be read, belongs to an earlier Shoot of this name, or its Secrets are incomplete; "
        "restore it from a backup of the garden. Nothing is written over it",
        STATE,
    )
    STATE_NOT_TRANSFERABLE = _person(
        "StateNotTransferable",
        "an extension keeps a state that can't be carried to another seed: it is too large or unreadable; have the "
        "extension fixed, and do not move the shoot before. The message names it",
        STATE,
    )
    STATE_MISSING = _person(
        "StateMissing",
        "a resource of a kind that gardenlets do not render waits for its state, and the ShootState has none for it; "
        "restore the ShootState, or remove the annotation: its extension then creates it anew. The message names it",
        STATE,
    )
    SHOOT_MISSING = _time(
        "ShootMissing",
        "no Shoot has the UID of a Secret with a state; it is deleted after an hour, unless one appears",
        STATE,
    )
    SHOOT_NOT_OBSERVED = _time(
        "ShootNotObserved", "the Shoot of a Secret with a state exists, and is not observed yet", STATE
    )


class EtcdReason(Reason):
    """Of Etcds."""

    INVALID_SPEC = _person(
        "InvalidSpec", "the spec or its epochs in annotations can't be used; correct what the message names", ETCD
    )
    STATEFUL_SET_REPLACED = _time(
        "StatefulSetReplaced", "fields that can't be changed differ: the StatefulSet is recreated", ETCD
    )
    PODS_PENDING = _time(
        "PodsPending", "the StatefulSet was written, and not all pods are of its newest template yet", ETCD
    )
    PODS_NOT_READY = _time(
        "PodsNotReady",
        "etcd does not serve, or the copy is not done; if that lasts, `/healthz` of the agent says why",
        ETCD,
    )
    PODS_STOPPING = _time("PodsStopping", "its pods still run or terminate", ETCD)
    SCALED_TO_ZERO = _time("ScaledToZero", "`spec.replicas` is 0, so no etcd runs: its shoot hibernates", ETCD)
    DELETING = _time("Deleting", "its objects or its data are being deleted", ETCD)
    NAME_TAKEN = _person(
        "NameTaken",
        "an object of that name belongs to something else, such as a deleted Etcd of this name; it resumes when that "
        "is gone: delete it if it is not needed",
        ETCD,
    )
    PLAN_OUTDATED = _time("PlanOutdated", "objects were changed at the same time; they are read again", ETCD)
    CLAIM_DELETING = _person(
        "ClaimDeleting",
        "somebody has deleted a PersistentVolumeClaim with data, which can't be undone: it goes with the pod that uses "
        "it. The message says how nothing, or as little as possible, is lost",
        ETCD,
    )


class ExtensionReason(Reason):
    """Of extension kinds."""

    # Condition LeaseValid.
    LEASE_EXPIRED = _person(
        "LeaseExpired",
        "the lease of the shoot in this seed has ended. Nothing is to be done if the shoot moved; otherwise find out "
        "why the gardenlet does not reach the garden or the seed",
        EXTENSION,
        MACHINE,
    )
    LEASE_MISSING = _time(
        "LeaseMissing", "the gardenlet has not written a lease into the Cluster yet", EXTENSION, MACHINE
    )
    CLUSTER_MISSING = _time(
        "ClusterMissing", "the gardenlet has not created the Cluster of the shoot yet", EXTENSION, MACHINE
    )
    SHOOT_MIGRATING = _time(
        "ShootMigrating",
        "the shoot is to leave this seed, so nothing is done for it here but to migrate its resources",
        EXTENSION,
        MACHINE,
    )
    CLOCK_SKEW = _person(
        "ClockSkew",
        "the lease is further ahead than validity and skew allow: the clock of this machine, or that of the "
        "gardenlet's, is off; correct it",
        EXTENSION,
        MACHINE,
    )
    # Condition DependentsKept.
    OBJECTS_DELETING = _person(
        "ObjectsDeleting",
        "somebody has deleted objects that the extension made, and finalizers hold them, for longer than a minute. The "
        "message names them, and what to do; once they are gone, the extension makes them again",
        EXTENSION,
    )
    # The library.
    SHOOT_FAILED = _person(
        "ShootFailed",
        "the operation of the Shoot has failed, so its resources are left alone; change its spec, or annotate it with "
        "`gardener.cloud/operation=retry`",
        EXTENSION,
    )
    SUPERSEDED = _time("Superseded", "the operation was stopped, because the resource has to be migrated", EXTENSION)
    OPERATION_TOO_LONG = _time(
        "OperationTooLong",
        "the operation took longer than `longestReconcile` and was stopped; it is retried",
        EXTENSION,
        MACHINE,
    )
    OPERATION_FAILED = _person(
        "OperationFailed",
        "the extension can't carry out the operation; the message says what was found, what is allowed and what to do. "
        "It is retried",
        EXTENSION,
        MACHINE,
    )
    STATE_INVALID = _person(
        "StateInvalid",
        "the state is missing, was not written by this extension, or names what is not there. Nothing is created in "
        "its place; restore the ShootState from a backup of the garden, and annotate the Shoot with "
        "`gardener.cloud/operation=retry`",
        EXTENSION,
    )
    STATE_TOO_LARGE = _person(
        "StateTooLarge",
        "the new state does not fit into the resource; the earlier one stays. Have the extension save less",
        EXTENSION,
    )
    INVALID = _person(
        "Invalid", "the resource or its `providerConfig` can't be read; correct what the message names", EXTENSION
    )
    INTERNAL_ERROR = _person(
        "InternalError", "the extension has a bug; its log has the traceback. It is retried", EXTENSION
    )
    PLAN_OUTDATED = _time(
        "PlanOutdated", "objects were changed at the same time; they are read again", EXTENSION, MACHINE
    )
    # Extensions of type local.
    CREDENTIALS_MISSING = _person(
        "CredentialsMissing",
        "the Secret with the credentials is missing or incomplete; correct the one of the garden that it is copied "
        "from",
        EXTENSION,
        MACHINE,
    )
    NAME_TAKEN = _person(
        "NameTaken",
        "an object or a DNS record of this name belongs to another owner; delete it, or choose another name",
        EXTENSION,
    )
    MACHINES_NOT_READY = _time("MachinesNotReady", "machines of the Worker are being created or replaced", EXTENSION)
    MACHINES_DELETING = _time("MachinesDeleting", "machines of the Worker are being deleted", EXTENSION)


class MachineReason(Reason):
    """Of machine kinds."""

    WORKER_MISSING = _time(
        "WorkerMissing", "the shoot has no Worker in this seed; its machines are left unchanged", MACHINE
    )
    WORKER_OPERATION_IN_PROGRESS = _time(
        "WorkerOperationInProgress",
        "the Worker is being created, restored, migrated, or deleted without confirmation; its machines are left "
        "unchanged",
        MACHINE,
    )
    NAMESPACE_DELETING = _time(
        "NamespaceDeleting",
        "somebody deletes the shoot's namespace: its machines stay, and their objects are restored in the next one",
        MACHINE,
    )
    MACHINES_STARTING = _time("MachinesStarting", "virtual machines are starting", MACHINE)
    ORPHAN_CHECK_SCHEDULED = _time(
        "OrphanCheckScheduled",
        "nothing is to be done; virtual machines without a Machine are looked for regularly",
        MACHINE,
    )


class ControllerReason(Reason):
    """Of the controllers of Shoots and Seeds."""

    GARDEN_UNREACHABLE = _time(
        "GardenUnreachable",
        "the Shoot can't be read in the garden, so nothing is done for it; it is retried",
        CONTROLLERS,
    )
    TECHNICAL_ID_TAKEN = _person(
        "TechnicalIDTaken",
        "`status.technicalID` is, or would be, that of another shoot, so nothing is done; the Shoot's last operation "
        "has the message. Correct the status, restore the Project, or create the shoot under another name",
        CONTROLLERS,
    )
    HANDED_OVER = _change(
        "HandedOver",
        "the source was named again after its etcd had been handed over; the Shoot's last operation has the message. "
        "Move the shoot to another seed, then back",
        CONTROLLERS,
    )
    FLOW_NOT_STARTED = _person(
        "FlowNotStarted",
        "no task could start: ownership epochs, the Cluster in the seed, or the ShootState can't be used; the Shoot's "
        "last operation has the message. It is retried",
        CONTROLLERS,
    )
    FAILED = _person(
        "Failed",
        "the operation has failed, and is not retried before the Shoot's spec changes or it is annotated with "
        "`gardener.cloud/operation=retry`",
        CONTROLLERS,
    )
    OWNERSHIP_UNREADABLE = _person(
        "OwnershipUnreadable",
        "the annotation with the ownership epochs can't be parsed; restore it from a backup of the garden",
        CONTROLLERS,
    )
    SEED_MISSING = _person(
        "SeedMissing",
        "the Seed in `spec.seedName` does not exist, so it gets no ownership epoch; or no seed can take a new Shoot: "
        "its last operation, `Create Pending`, says for each why not",
        CONTROLLERS,
    )
    SOURCE_MIGRATING = _time(
        "SourceMigrating",
        "the source hands the shoot over. The message has the seconds after which it is given up, if it stays silent",
        CONTROLLERS,
    )
    LEASE_RENEWAL_SCHEDULED = _time(
        "LeaseRenewalScheduled", "the lease of the shoot was renewed, and will be again", CONTROLLERS
    )
    BACKUP_CHECK_SCHEDULED = _time(
        "BackupCheckScheduled", "the health of the shoot was reported, and will be checked again", CONTROLLERS
    )
    SEED_LEASE_NOT_RENEWED = _time(
        "SeedLeaseNotRenewed",
        "the gardenlet could not renew its Lease, so the garden reports on its shoots until it can",
        CONTROLLERS,
    )
    STORE_CHECK_SCHEDULED = _time(
        "StoreCheckScheduled", "stores of other seeds were tried, and will be again", CONTROLLERS
    )
    CACHE_NOT_SYNCED = _time(
        "CacheNotSynced", "the garden has not read the Leases of seeds yet, or can't at the moment", CONTROLLERS
    )
    LEASE_CHECK_SCHEDULED = _time(
        "LeaseCheckScheduled", "the Lease of the seed was read, and will be again", CONTROLLERS
    )
    PLAN_OUTDATED = _time("PlanOutdated", "objects were changed at the same time; they are read again", CONTROLLERS)


SECTIONS: tuple[type[Reason], ...] = (
    ShootReason,
    TaskReason,
    SeedReason,
    BackupReason,
    StateReason,
    EtcdReason,
    ExtensionReason,
    MachineReason,
    ControllerReason,
)
"""A name may be in several of them, with other prose."""

REASONS: tuple[Prose, ...] = tuple(reason.prose for section in SECTIONS for reason in section)


def of_section(kind: str) -> list[Prose]:
    """The reasons of a section, by name."""
    return sorted((reason for reason in REASONS if kind in reason.kinds), key=lambda reason: reason.name)


ERROR_CODES: Mapping[ErrorCode, str] = {
    ErrorCode.UNAUTHENTICATED: "the provider does not accept the credentials, or they are missing; correct the Secret",
    ErrorCode.UNAUTHORIZED: "the credentials lack permissions; grant what the message says",
    ErrorCode.QUOTA_EXCEEDED: "a quota of the account is used up; raise it, or need less",
    ErrorCode.RATE_LIMITS_EXCEEDED: "the provider limits the rate of requests",
    ErrorCode.DEPENDENCIES: "something at the provider is in the way, like a resource that is still in use; remove it",
    ErrorCode.RETRYABLE_DEPENDENCIES: "the provider, or something that is needed there, is not available at the moment",
    ErrorCode.RESOURCES_DEPLETED: "the provider has no capacity left; choose another machine type or zone, or wait",
    ErrorCode.CLEANUP: "resources of the shoot can't be cleaned up; remove what the message names",
    ErrorCode.CONFIGURATION: "the configuration is invalid; correct what the message names",
    ErrorCode.RETRYABLE_CONFIGURATION: "the configuration is invalid or incomplete at the moment; correct what the "
    "message names, if it stays",
    ErrorCode.PROBLEMATIC_WEBHOOK: "a webhook of the shoot is in the way; correct or remove it",
}
"""Gardener's classes of errors, in `status.lastErrors` and `status.lastError`: extensions give them, and they are
passed on."""
