"""The shell: commands found in a reply, their risk, and the runner that ends what it starts."""
