"""Questions about parts, suppliers and orders (TPC-H's tables), in SQL. All were written for this suite."""

from __future__ import annotations

from .query import Query, sql

JOINS: list[Query] = [
    sql(
        "h_revenue_by_segment",
        """
        SELECT c_mktsegment, year(o_orderdate) AS year, sum(l_extendedprice * (1 - l_discount)) AS revenue,
               count(*) AS lines
        FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON o_orderkey = l_orderkey
        GROUP BY c_mktsegment, year(o_orderdate)
        ORDER BY c_mktsegment, year
        """,
        ordered=True,
    ),
    sql(
        "h_trade_between_regions",
        """
        SELECT rs.r_name AS from_region, rc.r_name AS to_region, count(*) AS lines, sum(l_quantity) AS quantity
        FROM lineitem
        JOIN orders ON l_orderkey = o_orderkey
        JOIN customer ON o_custkey = c_custkey
        JOIN supplier ON l_suppkey = s_suppkey
        JOIN nation nc ON c_nationkey = nc.n_nationkey
        JOIN nation ns ON s_nationkey = ns.n_nationkey
        JOIN region rc ON nc.n_regionkey = rc.r_regionkey
        JOIN region rs ON ns.n_regionkey = rs.r_regionkey
        GROUP BY rs.r_name, rc.r_name
        """,
    ),
    sql(
        "h_orders_per_customer",
        """
        SELECT placed, count(*) AS customers, min(c_custkey) AS first_customer
        FROM (
            SELECT c_custkey, count(o_orderkey) AS placed
            FROM customer LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%quick%deposits%'
            GROUP BY c_custkey
        )
        GROUP BY placed ORDER BY placed DESC
        """,
        ordered=True,
    ),
    sql(
        "h_customers_and_suppliers_of_a_nation",
        """
        SELECT coalesce(c.nation, s.nation) AS nation, customers, suppliers, balance
        FROM (SELECT c_nationkey AS nation, count(*) AS customers FROM customer
              WHERE c_acctbal > 5000 GROUP BY c_nationkey) c
        FULL OUTER JOIN
             (SELECT s_nationkey AS nation, count(*) AS suppliers, sum(s_acctbal) AS balance
              FROM supplier GROUP BY s_nationkey) s
        ON c.nation = s.nation
        """,
    ),
    sql(
        "h_late_orders_of_all_customers",
        """
        SELECT c_custkey, c_name, o_orderkey, o_orderdate
        FROM orders RIGHT JOIN customer ON o_custkey = c_custkey AND o_orderdate >= DATE '1997-06-01'
        WHERE c_acctbal < 2000
        """,
    ),
    sql(
        "h_pairs_of_lines",
        """
        SELECT a.l_shipmode AS one, b.l_shipmode AS other, count(*) AS pairs
        FROM lineitem a JOIN lineitem b ON a.l_orderkey = b.l_orderkey AND a.l_partkey < b.l_partkey
        WHERE a.l_shipdate < DATE '1996-01-01'
        GROUP BY a.l_shipmode, b.l_shipmode
        """,
    ),
    sql(
        "h_cheaper_elsewhere",
        """
        SELECT ps.ps_partkey, count(*) AS lines, max(l_extendedprice / l_quantity - ps_supplycost) AS margin
        FROM lineitem JOIN partsupp ps
          ON l_partkey = ps.ps_partkey AND l_suppkey <> ps.ps_suppkey AND l_quantity <= ps.ps_availqty
        WHERE l_returnflag = 'R'
        GROUP BY ps.ps_partkey
        """,
    ),
]

SUBQUERIES: list[Query] = [
    sql(
        "h_more_than_usual",
        """
        SELECT l_partkey, count(*) AS lines, sum(l_extendedprice) AS price
        FROM lineitem l
        WHERE l_quantity > (SELECT avg(x.l_quantity) FROM lineitem x WHERE x.l_partkey = l.l_partkey)
        GROUP BY l_partkey
        """,
    ),
    sql(
        "h_came_back_later",
        """
        SELECT c_mktsegment, count(*) AS customers
        FROM customer c
        WHERE EXISTS (SELECT 1 FROM orders o WHERE o.o_custkey = c.c_custkey AND o.o_orderdate < DATE '1994-01-01')
          AND NOT EXISTS (SELECT 1 FROM orders o
                          WHERE o.o_custkey = c.c_custkey AND o.o_orderdate >= DATE '1998-01-01')
        GROUP BY c_mktsegment
        """,
    ),
    sql(
        "h_never_ordered_null_aware",
        """
        SELECT c_nationkey, count(*) AS customers
        FROM customer WHERE c_custkey NOT IN (SELECT o_custkey FROM orders WHERE o_orderpriority <> '1-URGENT')
        GROUP BY c_nationkey
        """,
    ),
    sql(
        "h_never_ordered",
        """
        SELECT c_custkey, c_name FROM customer
        WHERE c_custkey NOT IN (SELECT o_custkey FROM orders WHERE o_custkey IS NOT NULL)
        ORDER BY c_custkey
        """,
        ordered=True,
    ),
    sql(
        "h_dear_orders_of_builders",
        """
        SELECT o_orderpriority, count(*) AS orders, sum(o_totalprice) AS total
        FROM orders
        WHERE o_totalprice > (SELECT avg(o_totalprice) FROM orders)
          AND o_custkey IN (SELECT c_custkey FROM customer WHERE c_mktsegment = 'BUILDING')
        GROUP BY o_orderpriority
        """,
    ),
    sql(
        "h_only_one_supplier_late",
        """
        SELECT l_suppkey, count(DISTINCT l_orderkey) AS orders
        FROM lineitem l
        WHERE l_receiptdate > l_commitdate
          AND EXISTS (SELECT * FROM lineitem o WHERE o.l_orderkey = l.l_orderkey AND o.l_suppkey <> l.l_suppkey)
          AND NOT EXISTS (SELECT * FROM lineitem o WHERE o.l_orderkey = l.l_orderkey
                          AND o.l_suppkey <> l.l_suppkey AND o.l_receiptdate > o.l_commitdate)
        GROUP BY l_suppkey
        """,
    ),
    sql(
        "h_parts_of_the_best_suppliers",
        """
        SELECT p_partkey, p_name, p_retailprice
        FROM part
        WHERE p_partkey IN (
            SELECT ps_partkey FROM partsupp
            WHERE ps_availqty > 3000 AND ps_suppkey IN (SELECT s_suppkey FROM supplier WHERE s_acctbal > 1000)
        )
        ORDER BY p_retailprice DESC, p_partkey
        LIMIT 25
        """,
        ordered=True,
    ),
    sql(
        "h_share_of_all",
        """
        WITH monthly AS (
            SELECT trunc(l_shipdate, 'MM') AS month, sum(l_extendedprice) AS price FROM lineitem GROUP BY 1
        )
        SELECT month, price, price > (SELECT avg(price) FROM monthly) AS above,
               cast(price AS double) / (SELECT cast(sum(price) AS double) FROM monthly) AS share
        FROM monthly
        """,
    ),
]

GROUPINGS: list[Query] = [
    sql(
        "h_busy_clerks",
        """
        SELECT o_clerk, count(*) AS orders, count(DISTINCT o_custkey) AS customers, max(o_totalprice) AS largest
        FROM orders GROUP BY o_clerk HAVING count(*) > 1 AND max(o_totalprice) > 100000
        """,
    ),
    sql(
        "h_rollup_of_places",
        """
        SELECT r_name, n_name, count(*) AS customers, sum(c_acctbal) AS balance
        FROM customer JOIN nation ON c_nationkey = n_nationkey JOIN region ON n_regionkey = r_regionkey
        GROUP BY ROLLUP (r_name, n_name)
        """,
    ),
    sql(
        "h_cube_of_lines",
        """
        SELECT l_shipmode, l_returnflag, grouping_id(l_shipmode, l_returnflag) AS level,
               sum(l_quantity) AS quantity, avg(l_discount) AS discount
        FROM lineitem GROUP BY CUBE (l_shipmode, l_returnflag)
        """,
    ),
    sql(
        "h_grouping_sets",
        """
        SELECT o_orderpriority, o_orderstatus, year(o_orderdate) AS year, grouping(o_orderstatus) AS of_all,
               count(*) AS orders
        FROM orders
        GROUP BY GROUPING SETS ((o_orderpriority, year(o_orderdate)), (o_orderstatus), ())
        """,
    ),
    sql(
        "h_two_distinct_counts",
        """
        SELECT l_shipmode, count(DISTINCT l_suppkey) AS suppliers, count(DISTINCT l_partkey) AS parts,
               sum(DISTINCT l_linenumber) AS numbers, sum(l_quantity) AS quantity
        FROM lineitem GROUP BY l_shipmode
        """,
    ),
    sql(
        "h_pivot_by_hand",
        """
        SELECT l_suppkey,
               sum(CASE WHEN l_shipmode IN ('AIR', 'REG AIR') THEN l_quantity ELSE 0 END) AS by_air,
               sum(CASE WHEN l_shipmode = 'RAIL' THEN l_quantity END) AS by_rail,
               count(*) FILTER (WHERE l_returnflag = 'R') AS returned,
               max(l_shipdate) FILTER (WHERE l_linestatus = 'O') AS last_open
        FROM lineitem GROUP BY l_suppkey
        """,
    ),
    sql(
        "h_spread_of_quantities",
        """
        SELECT p_brand, stddev_samp(l_quantity) AS deviation, avg(cast(l_discount AS double)) AS discount,
               min(p_size) AS least, percentile(p_size, 0.5) AS middle
        FROM part JOIN lineitem ON p_partkey = l_partkey GROUP BY p_brand
        """,
    ),
    sql(
        "h_delays",
        """
        SELECT CASE WHEN late <= 0 THEN 'in time' WHEN late < 30 THEN 'late' ELSE 'too late' END AS class,
               quarter, count(*) AS lines, avg(late) AS days
        FROM (SELECT datediff(l_receiptdate, l_commitdate) AS late, quarter(l_shipdate) AS quarter FROM lineitem)
        GROUP BY 1, quarter HAVING count(*) > 10
        """,
    ),
    sql(
        "h_phones",
        """
        SELECT substring(c_phone, 1, 2) AS code, upper(substring(c_name, 1, 4)) AS prefix, count(*) AS customers,
               max(length(trim(c_address))) AS longest, min(concat(c_mktsegment, '/', lower(c_name))) AS first
        FROM customer WHERE c_comment LIKE '%a%' AND c_address RLIKE '[0-9]'
        GROUP BY substring(c_phone, 1, 2), upper(substring(c_name, 1, 4))
        """,
    ),
]

WINDOWS: list[Query] = [
    sql(
        "h_three_largest_orders",
        """
        SELECT o_custkey, o_orderkey, o_totalprice, place
        FROM (SELECT o_custkey, o_orderkey, o_totalprice,
                     row_number() OVER (PARTITION BY o_custkey ORDER BY o_totalprice DESC, o_orderkey) AS place
              FROM orders)
        WHERE place <= 3
        """,
    ),
    sql(
        "h_ranks_of_parts",
        """
        SELECT p_brand, p_partkey, p_size, rank() OVER w AS rank, dense_rank() OVER w AS dense,
               percent_rank() OVER w AS percent, cume_dist() OVER w AS below
        FROM part WINDOW w AS (PARTITION BY p_brand ORDER BY p_size DESC)
        """,
    ),
    sql(
        "h_days_between_orders",
        """
        SELECT o_custkey, max(gap) AS longest, min(gap) AS shortest, count(gap) AS gaps
        FROM (SELECT o_custkey, datediff(o_orderdate, lag(o_orderdate)
                     OVER (PARTITION BY o_custkey ORDER BY o_orderdate, o_orderkey)) AS gap FROM orders)
        GROUP BY o_custkey
        """,
    ),
    sql(
        "h_running_totals",
        """
        SELECT o_orderkey, o_custkey, o_orderdate,
               sum(o_totalprice) OVER (PARTITION BY o_custkey ORDER BY o_orderdate, o_orderkey
                                       ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far,
               avg(o_totalprice) OVER (PARTITION BY o_custkey ORDER BY o_orderdate, o_orderkey
                                       ROWS BETWEEN 3 PRECEDING AND 1 FOLLOWING) AS around
        FROM orders ORDER BY o_orderkey
        """,
        ordered=True,
    ),
    sql(
        "h_last_ninety_days",
        """
        SELECT o_orderkey, o_orderpriority,
               count(*) OVER (PARTITION BY o_orderpriority ORDER BY o_orderdate
                              RANGE BETWEEN INTERVAL 90 DAYS PRECEDING AND CURRENT ROW) AS recent,
               first_value(o_orderdate) OVER (PARTITION BY o_orderpriority ORDER BY o_orderdate) AS since
        FROM orders
        """,
    ),
    sql(
        "h_tiles",
        """
        SELECT tile, count(*) AS customers, min(c_acctbal) AS least, max(c_acctbal) AS most
        FROM (SELECT c_acctbal, ntile(4) OVER (PARTITION BY c_mktsegment ORDER BY c_acctbal, c_custkey) AS tile
              FROM customer)
        GROUP BY tile
        """,
    ),
]

SETS: list[Query] = [
    sql(
        "h_nations_of_either",
        """
        SELECT c_nationkey AS nation FROM customer WHERE c_acctbal < 0
        UNION SELECT s_nationkey FROM supplier ORDER BY nation
        """,
        ordered=True,
    ),
    sql(
        "h_sold_and_supplied",
        """
        SELECT l_partkey AS part, l_suppkey AS supplier FROM lineitem WHERE l_shipmode = 'AIR'
        INTERSECT SELECT ps_partkey, ps_suppkey FROM partsupp
        """,
    ),
    sql(
        "h_supplied_and_not_sold",
        """
        SELECT ps_partkey AS part, ps_suppkey AS supplier FROM partsupp WHERE ps_availqty > 2000
        EXCEPT SELECT l_partkey, l_suppkey FROM lineitem WHERE l_returnflag = 'A'
        """,
    ),
    sql(
        "h_dates_of_all_kinds",
        """
        SELECT kind, year(day) AS year, count(*) AS events FROM (
            SELECT 'ordered' AS kind, o_orderdate AS day FROM orders
            UNION ALL SELECT 'shipped', l_shipdate FROM lineitem WHERE l_linenumber = 1
            UNION ALL SELECT 'received', l_receiptdate FROM lineitem WHERE l_linenumber = 1
        ) GROUP BY kind, year(day) ORDER BY kind, year
        """,
        ordered=True,
    ),
    sql(
        "h_dearest_lines",
        """
        SELECT o_orderkey, o_totalprice, o_orderdate, c_name
        FROM orders JOIN customer ON o_custkey = c_custkey
        ORDER BY o_totalprice DESC, o_orderkey LIMIT 20
        """,
        ordered=True,
    ),
]

QUERIES = [*JOINS, *SUBQUERIES, *GROUPINGS, *WINDOWS, *SETS]
