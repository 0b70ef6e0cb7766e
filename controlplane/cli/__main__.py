"""`python -m controlplane.cli`: the command `understudy` in a checkout."""

from controlplane.cli.main import main

main()
