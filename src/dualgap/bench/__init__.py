"""Comparisons with other libraries, judged by `dualgap.certify` and never by the libraries themselves."""

# Fits of each setting, the median of which counts. The first large one of a process is slower, because nobody has
# touched its memory before: of three, the median would be the slower of the two others.
REPEAT = 5
