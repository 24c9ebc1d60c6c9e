"""Comparisons with other libraries, judged by `dualgap.certify` and never by the libraries themselves."""
