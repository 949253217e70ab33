"""Plain NumPy twins: slow, word for word, to be read beside the papers."""
