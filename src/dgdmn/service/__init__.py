"""`dgdmn watch`: a page on this machine that follows runs."""
