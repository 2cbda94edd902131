"""fluoroscope measures what a medical federation leaks, and what stops it."""

from fluoroscope.process_tuning import settle

settle()
