"""What is too large, and what that would cost: every size above which another way is taken.

One table, so that the same thing has the same limit wherever it is met. What costs time is counted
in operations or in rows of a matrix whose eigenvalues are taken, what costs memory in entries of
eight bytes. Code reads `sizes.NAME` when it runs; tests lower a size to send a small workload the
way of a large one. How many things are handled together, where the result is the same, is not here.
"""

# The search for a strategy: seconds to a minute on one core.

ORBITS = 3000
"""Orbits of cells that one attribute tells apart. Time: a cube of it for each step of the climb."""
ROWS_OVER_AXIS = 3000
"""Rows of one matrix over one axis, kinds of values of one tree. Time: the same."""
ROWS_OVER_AXES = 1500
"""Rows of one matrix over several axes. Time: there are several such, with larger constants."""
ROWS_TOGETHER = 700
"""Rows of the small sets of a cut block that stay one component. Time: many tables meet in it."""
STEP = 3e9
"""Operations of a step over all different columns. Time: a hundred steps."""
MATRICES = 2e7
"""Entries of the rows of all blocks at all different columns. Memory: 160 MB, and a few copies."""
FEW_CELLS = 2**12
"""Orbits of cells among which no equal columns are looked for. Time: looking takes longer."""
BOXES_BY_COLUMNS = 250
"""Conditions whose weights are on few columns; with more, all cells take less time."""
WRITTEN_OUT = 1024
"""Values of an attribute whose prefixes or ranges get a matrix of all of them. Time: its cube."""
IN_DETAIL = 4096
"""Values of an attribute whose strategy by halves has more neighbours and bits. Time and bytes."""
VALUES_BY_HALVES = 2**17
"""Values of an attribute measured by halves. Time: n · log n, of some microseconds each."""
TABLE_AXES = 10
"""Long attributes of one table of a block that is cut. Time: two to that power sets of them."""
TABLE = 2**23
"""Combinations of orbits on which a squared column depends. Time: sensitivity is their maximum."""
BOUND_ROWS, BOUND_ROWS_ONCE = 1600, 5500
"""Rows of a matrix for the bound of products; and of one matrix more: twenty seconds, 0.9 GB."""
GRAMS = 2**26
"""Entries of all Grams of one attribute. Memory: 256 MB, of four bytes, and a few copies."""
TWINS = 2**10
"""Values of one attribute compared each with each even if their sets are nested. Time."""
JUDGED = 3 * 10**7
"""Queries whose variances are looked at one by one. Memory: some arrays of them."""
COLUMN_BYTES = 2**27
"""Bytes of the different columns of conditions. Memory."""
BOX_CELLS, BOX_CORNERS = 2**26, 2**25
"""Cells, and corners of pairs of conditions, with running sums over all cells. Memory: 1.5 GB."""
BASELINE_VALUES = 2048
"""Values of one attribute for HDMM's strategy, a comparison only. Time: minutes above it."""
