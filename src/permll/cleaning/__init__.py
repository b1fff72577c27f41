"""Cleaning: what is wrong with the labels of a data set, how sure that is, and the data set with them corrected."""
