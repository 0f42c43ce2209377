"""Whether a spec is acted on: policy, pod template, port range, compatibility. Pure."""
