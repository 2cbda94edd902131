"""fluoroscope measures what a medical federation leaks, and what stops it."""

from fluoroscope.machine import settle

settle()
