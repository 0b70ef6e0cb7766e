"""What people and programs can ask for: one module per noun, one transaction per function."""
