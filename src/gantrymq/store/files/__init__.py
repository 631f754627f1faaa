"""The files of a store: segments of fixed size, several of them as one, and the marks that outlive a crash."""
