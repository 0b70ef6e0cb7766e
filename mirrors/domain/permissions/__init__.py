"""The Kafka permissions that a flow needs, and the forms in which they are granted."""
