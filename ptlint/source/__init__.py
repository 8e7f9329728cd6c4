"""Bytes to text: which files to read, how to decode them, and which comments in them speak to ptlint."""
