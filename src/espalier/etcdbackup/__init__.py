"""The agent beside an etcd: snapshots into a store, restore, copies between stores, and handover of ownership."""
