"""The command line `imagehost-client`: arguments, commands, output and shell completion."""
