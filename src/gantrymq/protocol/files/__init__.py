"""What JSON files of a broker have, in Apache's form. The same objects travel in bodies, so they are kept here once."""
