"""Events that change rows: insert, update and delete, by key and in the order that the events say."""
