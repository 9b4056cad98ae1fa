"""How event bodies are read and written: fields, headers, checksums, compression."""
