"""Losses, margins, kernels and designs in any array library; threads; checks of what is given."""
