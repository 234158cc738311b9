"""A function of a seed with defects in it, for campaigns to find."""

import os
import time


def check(seed):
    kind = seed % 10
    assert kind != 1, f"the first law: broken by {seed}"
    assert kind not in (2, 3), f"the second law: broken by {seed}"
    if kind == 4:
        os.abort()
    if kind == 5:
        time.sleep(1000.0)
    if kind == 6:
        print("Not an answer.", flush=True)
        return 1 / (kind - 6)
    return None
