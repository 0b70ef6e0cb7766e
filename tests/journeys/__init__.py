"""The whole product on stage, and what may happen to it."""
