"""Readers of user data: image folders, tables, arrays, data frames and datasets of other libraries."""

from permll.data.readers.read import read as read
