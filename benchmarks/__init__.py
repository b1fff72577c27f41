"""Speed, as ratios measured side by side in one run. ``make bench`` and ``make results`` run it."""
