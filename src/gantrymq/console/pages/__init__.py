"""One module for each page of the console: it asks ``gantrymq.admin`` and renders a template."""
