"""`python -m dgdmn.cli` is `dgdmn`."""

from dgdmn.cli import main

if __name__ == "__main__":
    main()
