"""The web server, and what each request passes before its view: limits, origin, role, time zone."""
