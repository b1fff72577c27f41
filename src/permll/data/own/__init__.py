"""A user's own data, in the forms users have it."""

from permll.data.own.door import read as read
