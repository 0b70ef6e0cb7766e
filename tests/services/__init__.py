"""The services of docker-compose.yml as processes; no demo runs beside them."""
