"""What `binlake verify` asks of row images."""
