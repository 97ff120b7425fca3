"""The counters of a server that decodes speculatively: read while it runs, with nothing installed on it."""

from specviz.engines.watch.history import read_history
from specviz.engines.watch.picture import WatchPicture, picture_of
from specviz.engines.watch.watcher import ServerWatcher
from specviz.events import Counted

__all__ = ["Counted", "ServerWatcher", "WatchPicture", "picture_of", "read_history"]
