"""The services of docker-compose.yml as processes; no stage runs beside them."""
