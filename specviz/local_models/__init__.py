"""Models on this machine by name: our store, the hub's cache, LM Studio's and Ollama's folders. No torch."""
