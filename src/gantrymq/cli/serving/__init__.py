"""The servers that the commands start. Nothing here loads the library that parses command lines."""
