"""What a run will cost before it is started: operations, memory, disk and time.

costs      operations and memory of a training step, by formula, for each kind
planning   the same for a whole run, with times of a few real steps
terminal   the plan as tables
"""
