"""The store: typed keyspaces in one LMDB environment, or in memory."""
