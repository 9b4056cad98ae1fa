"""Tools that build and check the project: servers, golden logs, demo logs, tools. Not installed."""
