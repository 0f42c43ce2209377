"""What a dry run answers: refused by admission, or failure of the API server itself."""

from __future__ import annotations

import pytest
from moriio_operator.kube.errors import AdmissionVerdict, admission_verdict, from_status

from unit.passes import dies, refuse, serving

FORBIDDEN_BY_RIGHTS = (
    'pods is forbidden: User "system:serviceaccount:moriio-system:moriio-operator" cannot create '
    'resource "pods" in API group "" in the namespace "team"'
)


@pytest.mark.parametrize(
    ("status", "message", "verdict"),
    [
        (422, "spec.x: Invalid value", AdmissionVerdict.INVALID),
        (403, 'pods "x" is forbidden: exceeded quota: gpus', AdmissionVerdict.OVER_QUOTA),
        (403, 'violates PodSecurity "baseline"', AdmissionVerdict.POD_SECURITY),
        (403, 'admission webhook "x" denied the request: no', AdmissionVerdict.DENIED),
        (418, 'admission webhook "x" denied the request: no', AdmissionVerdict.DENIED),
        (500, 'failed calling webhook "x": refused', AdmissionVerdict.WEBHOOK_FAILED),
        (403, FORBIDDEN_BY_RIGHTS, None),
        (500, "etcdserver: leader changed", None),
        (504, "timeout", None),
        (429, "too many requests", None),
    ],
)
def test_a_verdict_of_admission_is_told_from_trouble_of_the_api_server(
    status: int, message: str, verdict: AdmissionVerdict | None
) -> None:
    assert admission_verdict(from_status(status, {"message": message})) is verdict


@pytest.mark.parametrize(
    ("status", "message"), [(403, FORBIDDEN_BY_RIGHTS), (500, "etcdserver: leader changed")]
)
async def test_trouble_of_the_api_server_is_not_reported_as_a_refused_spec(
    status: int, message: str
) -> None:
    operator = await serving()
    error = from_status(status, {"message": message})
    operator.kube.refuse = refuse("dry-run", "Pod", error)
    dies(operator, "llm-decode-4")
    with pytest.raises(type(error)):
        await operator.step()
    assert operator.condition("Accepted").status == "True"
    operator.kube.refuse = lambda _verb, _obj: None
    await operator.settle()
    assert operator.condition("Ready").status == "True"
