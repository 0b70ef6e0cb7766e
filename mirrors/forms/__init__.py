"""Forms check the shape of what a person enters; `mirrors.domain` judges the values."""
