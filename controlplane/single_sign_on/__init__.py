"""Sign-in with an identity provider (OpenID Connect) or behind a proxy; roles come from groups."""
