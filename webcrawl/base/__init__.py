"""What every room stands on: work in a thread, files, open files, and text for people."""
