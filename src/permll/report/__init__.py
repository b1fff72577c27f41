"""Figures, tables, text summaries and HTML pages made from results."""
