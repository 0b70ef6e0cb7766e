"""The benchmark: real MirrorMaker 2, a plain loop and this product on the same brokers and data."""
