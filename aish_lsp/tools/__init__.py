"""What a model may call: the tools of ours, and the ways to call one."""
