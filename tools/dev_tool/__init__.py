"""What ./dev does, a file for each part. Standard library only; everything printed goes to stderr."""
