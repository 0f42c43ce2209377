"""How the whole suite runs: in parts, several at a time, on one bed.

pytest collects as always. The tests are then shared out into parts (`parts.py`), each of which is a
pytest process of its own; `schedule.py` says which of them may run side by side, and `plugin.py`
starts them and reports their results as if they had run here. `budget.py` looks at how long it
all took.
"""
