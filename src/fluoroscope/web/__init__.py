"""The live view: pages about the runs in a folder, for the people at this machine. It reads, and writes nothing."""
