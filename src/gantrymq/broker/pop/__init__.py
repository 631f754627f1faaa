"""POP consumption: messages are handed out, invisible to others for a time, and come back unless acknowledged."""
