"""Settings: what they may be, and what is built of them."""
