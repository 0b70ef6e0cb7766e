"""Connections to brokers: which address to try, sockets, logins, requests and replies."""
