"""`python -m dgdmn.cli` is `dgdmn`."""

from dgdmn.cli import main

main()
