"""The lists of the product: one declaration each for its page, its files and its REST fields."""
