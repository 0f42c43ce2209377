"""The demo: a cluster, the chart, a PDDeployment, three prompts, and the proof."""
