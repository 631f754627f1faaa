"""A store that is fed the bytes of another one's log, with crashes of both and cuts of its log. No protocol is used."""
