"""Sign-in at an identity provider, behind a proxy, with one-time codes."""
