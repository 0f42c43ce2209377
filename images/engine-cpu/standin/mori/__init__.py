"""Stand-in for AMD's package `mori`: the part that vLLM's MoRIIO connector calls, without a NIC.

    session.py  starts transfers and completes them later      (the initiator's NIC)
       |  wire.py, over TCP
    nic.py      serves the regions that memory.py registered   (the target's NIC)

As with RDMA the target's own code takes no part in a transfer, keys and bounds are checked where
the memory is, and completion comes later. faults.py lets a test break transfers while engines run.
Nothing here says anything of verbs, NIC choice or speed.
"""

__version__ = "1.2.3+standin"
