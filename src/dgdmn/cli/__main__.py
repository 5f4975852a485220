"""`python -m dgdmn.cli` does the same as `dgdmn`."""

from dgdmn.cli.app import main

if __name__ == "__main__":
    main()
