"""The benchmark: what the operator costs beside a bare client that asks the same of the API server.

`python -m bench` (`make bench`) brings up a bed with the real control plane and played nodes, lets
the operator make one PDDeployment and records every call (`recording.py`), then lets a bare client
(`bare.py`) and the operator in turn make a hundred. All times come from the API server's audit log
(`ledger.py`), so measuring costs nothing while it goes on. `rounds.py` has the order of things,
`figures.py` turns what was seen into the table of docs/performance.md.
"""
