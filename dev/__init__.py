"""What makes and checks the project: servers, golden logs, demo logs, tools. Not installed."""
