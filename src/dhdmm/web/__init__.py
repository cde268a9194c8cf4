"""Pages to watch a round and to read its release: rendered here, served by the coordinator."""
