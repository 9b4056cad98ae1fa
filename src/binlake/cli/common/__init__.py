"""Common parts of commands: options, help, messages, output files."""
