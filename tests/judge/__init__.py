"""The judge: random states on real brokers, and every statement compared with its own ledger.

Nothing here imports the product: the ledger, the counting and the verdicts are independent of it.
"""
