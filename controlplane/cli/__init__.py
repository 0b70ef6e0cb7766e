"""The command `understudy`: start services, and use the REST API of a running Understudy."""
