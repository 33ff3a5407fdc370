"""Sentences of refusals."""

from __future__ import annotations

SEED_STAYS_SET = "a shoot that has a seed keeps one; name the seed that shall have its control plane"
ONLY_THE_SEED = "a write that moves the shoot changes nothing else; write this field before, or when the move is done"
FROZEN = "the shoot moves to another seed; its spec can be changed when that is done"
NOT_CREATED = "the shoot can move only after its creation has succeeded; wait for that"
DELETED = "the shoot is deleted and does not move any more"
MOVING = (
    "the shoot moves already, and what was begun is finished before it moves again; name another seed when that is"
    " done, or now if the seed it moves to is lost"
)
MAY_NOT_MOVE = "you may not choose the seed of a shoot that has one; ask an operator of the garden"
NO_SUCH_SEED = "there is no such seed"
SEED_DELETED = "the seed is being deleted"
SEED_WITHOUT_BACKUP = "the seed has no spec.backup: a shoot that comes to it, or leaves it, needs a place for backups"
SOURCE_WITHOUT_BACKUP = "the shoot's present seed has no spec.backup, so its etcd can't be copied; add one there"
NOT_TOLERATED = "the seed has a taint that the shoot does not tolerate; add it to spec.tolerations"
NOT_SELECTED = "the seed is not among those that are selected; name one with these labels"
WRONG_PROVIDER = "the cloud profile allows seeds of other providers only"
FULL = "the seed has as many shoots as it takes; name another one"
OVERLAPPING = "networks of the seed and the shoot overlap; name a seed with other networks"
HIGHLY_AVAILABLE = (
    "control planes with several members of etcd are not supported: an etcd has one member; remove this field"
)
REPLICAS = "an etcd has one member, or none while it is stopped; several members (replicas: 3) are not supported"
SOURCE_STORE_ALONE = "an etcd that copies backups needs spec.backup.store as well: the place to copy to"
SAME_STORE = "source and destination of the copy are the same; each ownership epoch has a prefix of its own"
DOUBLE_HYPHEN = "the name of the shoot's namespace in its seed is made of it, with -- between its parts"
NAME_TAKEN = (
    "the name of the shoot's namespace in its seed would be another shoot's; name this shoot, or its project, otherwise"
)
TOO_LONG = "the name of the shoot's namespace in its seed would have more than 63 characters"
NOT_YOURS = "these annotations are written by the garden and by gardenlets alone; leave them as they are"
EPOCHS_STAY = "epochs are never removed or changed once they are written, but those nobody needs any more"
NOT_YOUR_EPOCH = "a gardenlet writes one thing here: that the newest epoch, if it is of its own seed, has started"
ENTRY_NAME = "a BackupEntry has the technical ID and UID of a shoot of its namespace as its name"
FORCED = "you may not give up the seed of a shoot that moves; ask an operator of the garden"
SPEC_OF_GARDENLET = "a gardenlet writes the status of its shoots and annotations of ours, never what users ask for"
BUCKET_NAME = "a gardenlet writes one BackupBucket: that of its own seed, named like the UID of its Seed"
BUCKET_OF_SEED = "a BackupBucket that a gardenlet writes has what spec.backup of its Seed says"
STATE_OF_OTHER_SEED = "a gardenlet writes ShootStates of shoots whose newest epoch is its own seed's"
PIECE_OF_OTHER_SEED = (
    "a gardenlet makes Secrets with the state of shoots whose newest epoch is its own seed's, named"
    " <UID of the Shoot>--<epoch>-<digest>--<number>"
)
PIECE_LABELS = "a Secret with state says in labels what it says in its name, and has no owner"
ENTRY_OF_EPOCH = "a BackupEntry is made for bucket and seed of the shoot's newest epoch"
ENTRY_HELD = "its deletion deletes all backups of the shoot; delete the Shoot, and it goes at the end"
ENTRY_BUCKET_STAYS = "backups stay in the bucket they are in; another bucket has an entry of its own"
SOURCE_NOT_NEEDED = "a source entry is only there while the shoot is restored in another seed"
SOURCE_BUCKET = "a source entry is for the bucket of the epoch which the shoot's data comes from"
SOURCE_SEED = "a source entry belongs to the seed that the shoot moves to"
STATE_OF_NO_SHOOT = "a ShootState has the name of its Shoot, and the Shoot as its controlling owner"
STATE_HELD = "it is all that is known of the shoot's control plane; delete the Shoot, and it goes at the end"
TWICE = "it is there twice"
STATE_AND_REFERENCE = "state is either here or in Secrets"
NOT_BASE64 = "data of secrets is in base64"
STATUS_OF_OTHER_SEED = (
    "a gardenlet writes the status of shoots that its seed has; before any seed has them, that it is to have"
)
STATUS_DECIDES = "the garden and the gardenlet that has the shoot act by it, and they alone write it"
SEED_TAKES = "a gardenlet takes a new shoot for its own seed"
SEED_PASSES = "a gardenlet passes a shoot on to spec.seedName, together with lastOperation Migrate Succeeded"
IDENTITY_STAYS = "it is written once; an operator of the garden puts right what is wrong"
UID = "it is the UID of the Shoot, when it is written first"
TECHNICAL_ID = "it follows from the names of project and shoot; restore the Project if its name is another one"
TECHNICAL_ID_TAKEN = "another shoot has it, and both can't be in one seed; make this shoot under another name"
