"""SQL92 selectors over message properties: text to a tree to a closure. No I/O."""
