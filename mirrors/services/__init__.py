"""Services: what people and programs can request; one transaction per function."""
