"""Changes of a program that change nothing in what ptlint may say of it."""
