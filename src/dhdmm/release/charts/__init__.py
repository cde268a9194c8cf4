"""Charts of tables as SVG, on pages and in files."""
