"""Heartbeats of all flows: schedule, emitter, connections and arrivals."""
