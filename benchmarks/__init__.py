"""Speed and memory of evigrad, as ratios measured in one run; `run.py` measures, `page.py` writes the docs."""

REFRESH = 10  # the default of CalibratedLoss: every 10th step renews the posteriors
