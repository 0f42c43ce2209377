"""What the reasons of Accepted and ContractChecked mean: what is wrong with a spec, and what to do.

Rows stand in the order of the page that is generated from them.
"""

from __future__ import annotations

from moriio_operator.api.reasons import Explanation, Reason
from moriio_operator.api.status import ConditionType

_ACCEPTED = (ConditionType.ACCEPTED,)
_CHECKED = (ConditionType.CONTRACT_CHECKED,)

EXPLANATIONS: tuple[Explanation, ...] = (
    Explanation(
        Reason.ACCEPTED, _ACCEPTED, "True",
        "Nothing in the spec is refused.",
        "Nothing to do.",
    ),
    Explanation(
        Reason.REFUSED_BY_POLICY, _ACCEPTED, "False",
        "The admin's policy does not allow the namespace, the host network, a hostPath, an image "
        "or the number of GPUs, or `portRange` is not within the operator's range.",
        "Ask for less, or let the admin extend the chart value that the message names.",
    ),
    Explanation(
        Reason.TEMPLATE_REFUSED, _ACCEPTED, "False",
        "`podTemplate` sets something that the operator owns, or the API server refuses the pod "
        "that is made from it.",
        "Change the field that the message names.",
    ),
    Explanation(
        Reason.POD_SECURITY_FORBIDS, _ACCEPTED, "False",
        "The pod-security level of the namespace forbids privileged pods.",
        "Let the admin label the namespace `pod-security.kubernetes.io/enforce=privileged`.",
    ),
    Explanation(
        Reason.OVER_QUOTA, _ACCEPTED, "False",
        "A quota of the namespace is used up, and nothing is about to free any of it.",
        "Raise the quota, or ask for fewer engines.",
    ),
    Explanation(
        Reason.ENGINE_REWRITTEN, _ACCEPTED, "False",
        "An admission webhook changes the name, the operator's labels or the ports of engine pods, "
        "so that the operator would not recognise them.",
        "Exempt pods with the label `moriio.dev/component: engine` from the webhook.",
    ),
    Explanation(
        Reason.POD_FORBIDDEN, _ACCEPTED, "False",
        "Another admission rule refuses engine pods; the message is the API server's.",
        "Lift the rule for this namespace.",
    ),
    Explanation(
        Reason.ADMISSION_FAILED, _ACCEPTED, "False",
        "An admission webhook of the cluster does not answer.",
        "Fix the webhook that the message names.",
    ),
    Explanation(
        Reason.CHILD_REFUSED, _ACCEPTED, "False",
        "The API server refuses a Service, the router Deployment or another object that is no "
        "engine, because of a quota or a wrong `router.resources`, say.",
        "Change what the API server's message names.",
    ),
    Explanation(
        Reason.NAME_TAKEN, _ACCEPTED, "False",
        "An object that does not belong to this PDDeployment has the name of one of its children.",
        "Delete that object, or rename the PDDeployment; an object of an earlier PDDeployment of "
        "this name goes by itself.",
    ),
    Explanation(
        Reason.OUTSIDE_CONTRACT, _ACCEPTED, "False",
        "This version of vLLM cannot do what the spec asks for; the message names the field, its "
        "value and the rule.",
        "Change the field as the message says; [compatibility.md](compatibility.md) has all rules.",
    ),
    Explanation(
        Reason.VERSION_TOO_OLD, _ACCEPTED, "False",
        "The vLLM in the image is older than any that this operator knows.",
        "Use a newer image, or declare `spec.engine.version` if the image's tag is misleading.",
    ),
    Explanation(
        Reason.CONNECTOR_UNSUPPORTED, _ACCEPTED, "False",
        "This version of the operator does not know `connector.type`.",
        "Use a type that the message names, or upgrade the operator.",
    ),
    Explanation(
        Reason.CHECKED, _CHECKED, "True",
        "Every rule of this version of vLLM was checked.",
        "Nothing to do.",
    ),
    Explanation(
        Reason.VERSION_TOO_OLD, _CHECKED, "False",
        "No rules are known for this version of vLLM.",
        "See Accepted.",
    ),
    Explanation(
        Reason.VERSION_NEWER, _CHECKED, "False",
        "The vLLM in the image is newer than the operator knows, if only by a patch release, so "
        "the newest known rules are applied.",
        "Upgrade the operator once there is a release that knows this version.",
    ),
    Explanation(
        Reason.VERSION_UNSTATED, _CHECKED, "Unknown",
        "The image's tag does not give vLLM's version, so the newest known rules are applied.",
        "Declare `spec.engine.version`; this makes a new revision, so the engines are replaced.",
    ),
    Explanation(
        Reason.FACTS_UNSTATED, _CHECKED, "Unknown",
        "Rules were not checked because a fact is missing; the message names each.",
        "Declare `spec.model.config`, or whatever else the message names; a note on draft models, "
        "or on XGMI with `dataLocal`, stays, since no field answers it.",
    ),
    Explanation(
        Reason.FACTS_DIFFER, _CHECKED, "False",
        "An engine reports another version, attention, number of KV heads or kind of layers than "
        "the spec declares.",
        "Correct what the message names; with the right fact a rule may refuse the spec (what runs "
        "is kept), and another `engine.version` is a new revision.",
    ),
)  # fmt: skip
