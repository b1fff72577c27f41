"""Local web application for reviewing label issues."""
