"""One command: its supervisor, folder, output and hook."""
