"""The copy engine against real brokers, and its codecs by themselves."""
