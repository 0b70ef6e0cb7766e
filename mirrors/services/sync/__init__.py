"""Topics, settings, access rules on the target: brought into step; drift is told from news."""
