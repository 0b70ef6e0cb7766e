"""The whole product as `make demo` starts it, and faults that may happen to it."""
