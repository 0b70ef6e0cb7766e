"""Metrics pushed over OTLP: the figures of `/metrics`, to a collector of OpenTelemetry."""
