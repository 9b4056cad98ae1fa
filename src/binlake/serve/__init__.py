"""An archive as a source: real replicas log in and follow it (`binlake serve`)."""
