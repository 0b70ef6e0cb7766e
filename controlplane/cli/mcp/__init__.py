"""`understudy mcp`: a read-only Model Context Protocol server over the REST API."""
