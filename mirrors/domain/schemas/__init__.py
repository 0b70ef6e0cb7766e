"""Schema registries: their settings, schemas and what a flow does with them."""
