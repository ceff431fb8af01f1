"""Where results are kept that a cache policy names. Import from `memory` or `sqlite`."""
