"""The main screen and the dialogs over it."""
