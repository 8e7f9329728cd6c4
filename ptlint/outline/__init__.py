"""What `ast` says about every file, and the programs that their imports make of them."""
