"""File formats that dualgap writes and reads itself."""
