"""Places in the scratch arrays. Few wide arrays instead of many narrow ones: they compile and call much faster."""

# A link's row of Work.link.
T = 0  # 2: direction
REAR = 2  # 2: X, the rear joint's velocity is v - w X
FRONT = 4  # 2: Y, the front joint's velocity is v + w Y
HEFT = 6  # 2: mass with drag, moment of inertia
FORCE = 8  # 3: b
DRIFT = 11  # 3: d
GIVE = 14  # 4: compliance C of the pins (xx, xy, yy) and of bending
BEND = 18  # 5: angle, moment, secant stiffness, their slopes
DIAG = 23  # 6: Cholesky factor of the diagonal block, reciprocal diagonal
LOW = 29  # 9: factor's block below it
INV = 38  # 6: inverse of H
SPEED = 44  # 3: next velocity v
LAM = 47  # 3: joint multipliers l
TOP, BOTTOM = 50, 53  # right-hand sides
DUAL = 56  # residual
DV, DL = 59, 62  # direction, or the adjoint's a and m
KSPEED, KLAM = 65, 68  # kept aside
RX, RY, CX, CY = 71, 74, 77, 80  # residual and correction of a refined solve
LINK_COLUMNS = 84

# A contact row's (ROW to KZ) and a contact's (GAP to SLIDE) row of Work.row.
ROW = 0  # 3: G
TARGET, WEIGHT, SLACK, Z = 3, 4, 5, 6  # e, w, s, z
DS, DZ, MISS, PRODUCT = 7, 8, 9, 10
KSLACK, KZ = 11, 12
GAP, ARM = 13, 14
DATA = 15  # 2: corner
OPEN, SLIDE = 17, 20  # 3 each: rows that open the gap and slide along it
ROW_COLUMNS = 24

# Work.index: of a contact, of a contact, of a row.
KIND, OBSTACLE, ACTIVE = 0, 1, 2
