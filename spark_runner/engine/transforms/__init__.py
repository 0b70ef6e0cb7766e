"""Records whose rules are evaluated outside of the copy loop: what is sent, what comes back."""
