"""What is owed: the records of the source that a target should hold and does not hold yet.

`partition` evaluates one topic-partition, `totals` adds the results up, `sentences` formats them.
Every figure of lag, loss and readiness is one of these amounts or a sum of them.
"""
