"""Events and rows as text: lines, JSON, scripts for a client."""
