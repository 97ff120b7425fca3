"""A file per widget. Each takes the frame, paints its part of it and posts messages; none reads events or JSON."""
