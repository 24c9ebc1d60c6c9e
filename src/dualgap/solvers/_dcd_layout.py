"""What the columns of an item and the places of a sweep's state mean.

An item is a variable, or the two variables of a regression point as one (v = a+ - a-, of which only one is not zero).
All that a step needs of it lies in one cache line of `items`. Its objective alone is::

    1/2 CURVATURE v^2 + (slope - CURVATURE v_now) v + KINK max(v, 0),    LOWER <= v <= UPPER
"""

VALUE, LOWER, UPPER, LINEAR, KINK, CURVATURE, RIDGE, SIGN = range(8)
# Places in the integer state of a sweep: the active list and how far a pass has come, passes and rows so far; passes
# of the running series between two leaps, items that it began with, and shots taken of them.
ACTIVE, CURSOR, KEPT, PASSES, ROWS, SERIES, CHOSEN, SHOTS = range(8)
# Places in its real state: largest violations of the running pass, what it takes to be set aside at either bound, the
# worst of the last pass; the duality gap that the running pass has seen, item by item, the objective, which every step
# keeps up to date, and what both say of the relative gap after the last pass.
RISING, FALLING, ASIDE_LOW, ASIDE_HIGH, WORST, GAP, OBJECTIVE, BELIEVED = range(8)
WHOLE, REAL = 8, 8
# Orders of a pass.
PERMUTED, CYCLIC, RANDOM = range(3)
