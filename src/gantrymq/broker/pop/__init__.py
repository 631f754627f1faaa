"""POP consumption: messages are handed out, are invisible to others for a time, and come back unless acknowledged."""
