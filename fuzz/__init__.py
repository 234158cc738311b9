"""Random problems, tame and hostile, for every estimator: what breaks a law is a finding.

``python -m fuzz`` runs a campaign, ``python -m fuzz replay CASE`` one case of it; see
docs/project/fuzzing.md.
"""

import os

# Arrays of other libraries need it; it is read when SciPy is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
