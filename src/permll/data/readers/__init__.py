"""A user's own data, in the forms users have it."""

from permll.data.readers.read import read as read
