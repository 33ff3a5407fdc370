"""Object stores for backups: one interface (`store.Store`) to S3, GCS, Azure, a local folder, and memory.

Nothing here imports obstore but `remote.py`, which is loaded when a bucket is opened.
"""
