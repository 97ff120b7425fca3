"""llama.cpp's own server as a contestant: the same weights in its file format, a process of its own, loopback."""
