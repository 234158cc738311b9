"""``python -m grayzone`` is the command ``grayzone``."""

from grayzone.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
