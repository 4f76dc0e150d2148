"""What the demo, the end-to-end tests and the rigs share: the server as a process, memory cgroups, plain HTTP. Standard library only."""
