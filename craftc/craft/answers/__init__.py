"""What a fitted CRAFT or PaperCRAFT says about its clusters and about tables: each answer in a module."""
