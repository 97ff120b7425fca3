// Frames of the core as server-sent events. A browser opens six connections to a server, and every stream takes one:
// only a tab that is looked at has one.

// `told`: what of the room, beside the frames (`Room.hear`).
export class Feed {
  constructor(address, heard, complain, told) {
    Object.assign(this, { address, heard, complain, told });
    this.seen = () => (document.hidden ? this.close() : this.source ?? this.connect());
    document.addEventListener("visibilitychange", this.seen);
    this.connect();
  }

  connect() {
    if (document.hidden) return;
    const source = new EventSource(this.address);
    this.source = source;
    source.onmessage = (event) => this.heard(JSON.parse(event.data));
    source.addEventListener("room", (event) => this.told?.(JSON.parse(event.data)));
    source.onerror = () => this.complain(source.readyState === EventSource.CLOSED
      ? "The server gives this page no view of the run: too many pages follow it, or it was started anew. Reload the page."
      : "The connection to the server is lost; trying again.");
  }

  close() {
    this.source?.close();
    this.source = null;
  }

  end() {
    document.removeEventListener("visibilitychange", this.seen);
    this.close();
  }
}
