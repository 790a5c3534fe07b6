"""The ``normalign`` command: one file per subcommand; each parses, calls and prints."""
