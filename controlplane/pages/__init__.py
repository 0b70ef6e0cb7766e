"""Pages of the project itself: sign-in, tokens, people, search, help."""
