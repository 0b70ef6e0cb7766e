"""Connections to brokers: choice of the address, sockets, logins, requests and responses."""
