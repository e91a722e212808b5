"""Covid tweets per month (Figure 1 of the paper): twelve months on six workers.

The paper gives the percentages of eight months; January, July, March and September share the remaining 34 so that
their two workers have 17 each. A month's code is its number, its worker the code modulo six: J6 is worker 0.
"""

from __future__ import annotations

NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
PERCENT = {1: 8, 2: 4, 3: 7, 4: 1, 5: 7, 6: 1, 7: 9, 8: 7, 9: 10, 10: 6, 11: 15, 12: 25}
WORKERS = 6
OCTOBER = 10
DECEMBER = 12
