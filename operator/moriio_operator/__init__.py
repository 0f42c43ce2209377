"""The MoRIIO operator: prefill/decode-disaggregated vLLM on Kubernetes, reconciled from one object.

Data flows downwards only: `api` (what a user writes) -> `contract` (what vLLM and the router ask
for) -> `plan` (what should be, pure) -> `build` (the objects, pure) -> `kube` (the API) ->
`control` (observe, plan, apply, report) -> `runtime` (kopf and the process). `node` is what runs
beside routers; import-linter holds the order.
"""

__version__ = "0.1.0"
