"""What commands share: options, help, messages, output files."""
