"""The steps of a failover run, one file each."""
