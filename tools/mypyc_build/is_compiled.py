"""Exit status 0 when the installed gantrymq is compiled: the check of every wheel that cibuildwheel builds."""

import sys

from gantrymq.build_info import build_info

found = build_info()
print(f"gantrymq: {found}, {len(found.compiled)} modules")
sys.exit(0 if found.compiled else 1)
