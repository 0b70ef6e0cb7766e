"""REST of people, tokens and approvals; how a request is authenticated."""
