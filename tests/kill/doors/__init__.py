"""Kills of a broker and of a proxy, while clients of both protocols use them; judged by the rules of histories."""
