"""The sections of the page, a module each: what a dataset's runs have to say, ready for its template."""
