"""Tweets per location (W1 of the paper): 180 million over 56 location codes.

The paper gives the totals of five locations; all others follow the resident population of the 2020 census
(U.S. Census Bureau, 2020 Census Apportionment Results, table 2; 2020 Island Areas Censuses, table 1). Codes are
FIPS 5-2 state codes. The five numbers that FIPS reserved for territories (3, 7, 14, 43, 52) stand for the five
inhabited ones, Northern Mariana taking number 7, once the Canal Zone's: 56 codes, the paper's "56 distinct
locations".
"""

from __future__ import annotations

from itertools import accumulate

CALIFORNIA = 6
TEXAS = 48
ILLINOIS = 17
ARIZONA = 4
WEST_VIRGINIA = 54

TOTAL = 180_000_000
GIVEN = {
    CALIFORNIA: 26_000_000,
    TEXAS: 20_000_000,
    ILLINOIS: 6_500_000,
    ARIZONA: 3_800_000,
    WEST_VIRGINIA: 600_000,
}

SHORT = {"CA": CALIFORNIA, "TX": TEXAS, "IL": ILLINOIS, "AZ": ARIZONA, "WV": WEST_VIRGINIA}

POPULATION = {
    1: 5_024_279,  # Alabama
    2: 733_391,  # Alaska
    3: 49_710,  # American Samoa
    4: 7_151_502,  # Arizona
    5: 3_011_524,  # Arkansas
    6: 39_538_223,  # California
    7: 47_329,  # Northern Mariana Islands
    8: 5_773_714,  # Colorado
    9: 3_605_944,  # Connecticut
    10: 989_948,  # Delaware
    11: 689_545,  # District of Columbia
    12: 21_538_187,  # Florida
    13: 10_711_908,  # Georgia
    14: 153_836,  # Guam
    15: 1_455_271,  # Hawaii
    16: 1_839_106,  # Idaho
    17: 12_812_508,  # Illinois
    18: 6_785_528,  # Indiana
    19: 3_190_369,  # Iowa
    20: 2_937_880,  # Kansas
    21: 4_505_836,  # Kentucky
    22: 4_657_757,  # Louisiana
    23: 1_362_359,  # Maine
    24: 6_177_224,  # Maryland
    25: 7_029_917,  # Massachusetts
    26: 10_077_331,  # Michigan
    27: 5_706_494,  # Minnesota
    28: 2_961_279,  # Mississippi
    29: 6_154_913,  # Missouri
    30: 1_084_225,  # Montana
    31: 1_961_504,  # Nebraska
    32: 3_104_614,  # Nevada
    33: 1_377_529,  # New Hampshire
    34: 9_288_994,  # New Jersey
    35: 2_117_522,  # New Mexico
    36: 20_201_249,  # New York
    37: 10_439_388,  # North Carolina
    38: 779_094,  # North Dakota
    39: 11_799_448,  # Ohio
    40: 3_959_353,  # Oklahoma
    41: 4_237_256,  # Oregon
    42: 13_002_700,  # Pennsylvania
    43: 3_285_874,  # Puerto Rico
    44: 1_097_379,  # Rhode Island
    45: 5_118_425,  # South Carolina
    46: 886_667,  # South Dakota
    47: 6_910_840,  # Tennessee
    48: 29_145_505,  # Texas
    49: 3_271_616,  # Utah
    50: 643_077,  # Vermont
    51: 8_631_393,  # Virginia
    52: 87_146,  # Virgin Islands
    53: 7_705_281,  # Washington
    54: 1_793_716,  # West Virginia
    55: 5_893_718,  # Wisconsin
    56: 576_851,  # Wyoming
}


def tweets_per_location() -> dict[int, int]:
    """Rows per location code, 180 million in all."""
    others = [code for code in POPULATION if code not in GIVEN]
    people = [POPULATION[code] for code in others]
    left = TOTAL - sum(GIVEN.values())
    # Rounding the running sum instead of each number keeps the total exact.
    ends = [left * upto // sum(people) for upto in accumulate(people)]
    starts = [0, *ends[:-1]]
    rows = GIVEN | {code: end - start for code, start, end in zip(others, starts, ends, strict=True)}
    return dict(sorted(rows.items()))
