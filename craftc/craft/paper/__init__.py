"""PaperCRAFT: the algorithm of the CRAFT paper and its variants, at a fixed price of a cluster."""
