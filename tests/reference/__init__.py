"""Reference implementations in plain NumPy, written from the papers and the specification: slow, and to be
read next to them.
"""
