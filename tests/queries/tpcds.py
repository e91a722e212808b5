"""Questions about sales of three channels (TPC-DS's tables), in SQL. All were written for this suite.

The table of customers is called ``ds_customer``, for TPC-H has one too.
"""

from __future__ import annotations

from .query import Query, sql

JOINS: list[Query] = [
    sql(
        "d_sales_by_category_and_month",
        """
        SELECT i_category, d_year, d_moy, sum(ss_ext_sales_price) AS sales, count(*) AS lines
        FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN item ON ss_item_sk = i_item_sk
        WHERE d_year = 2001 GROUP BY i_category, d_year, d_moy
        """,
    ),
    sql(
        "d_seven_tables",
        """
        SELECT ca_state, i_category, hd_buy_potential, sum(ss_net_profit) AS profit, count(*) AS lines
        FROM store_sales
        JOIN date_dim ON ss_sold_date_sk = d_date_sk
        JOIN item ON ss_item_sk = i_item_sk
        JOIN store ON ss_store_sk = s_store_sk
        JOIN ds_customer ON ss_customer_sk = c_customer_sk
        JOIN customer_address ON c_current_addr_sk = ca_address_sk
        JOIN household_demographics ON ss_hdemo_sk = hd_demo_sk
        WHERE d_moy IN (11, 12) AND hd_income_band_sk > 5
        GROUP BY ca_state, i_category, hd_buy_potential
        """,
    ),
    sql(
        "d_returned_share",
        """
        SELECT i_category, count(*) AS sold, count(sr_item_sk) AS returned, sum(sr_return_amt) AS amount
        FROM store_sales
        LEFT JOIN store_returns ON ss_ticket_number = sr_ticket_number AND ss_item_sk = sr_item_sk
        JOIN item ON ss_item_sk = i_item_sk
        GROUP BY i_category
        """,
    ),
    sql(
        "d_web_beside_store",
        """
        SELECT coalesce(w.item, s.item) AS item, web, store, coalesce(web, 0) - coalesce(store, 0) AS difference
        FROM (SELECT ws_item_sk AS item, sum(ws_quantity) AS web FROM web_sales GROUP BY ws_item_sk) w
        FULL OUTER JOIN
             (SELECT ss_item_sk AS item, sum(ss_quantity) AS store FROM store_sales GROUP BY ss_item_sk) s
        ON w.item = s.item
        """,
    ),
    sql(
        "d_billed_here_shipped_there",
        """
        SELECT b.ca_state AS billed, s.ca_state AS shipped, count(*) AS lines, sum(ws_net_paid) AS paid
        FROM web_sales
        JOIN customer_address b ON ws_bill_addr_sk = b.ca_address_sk
        JOIN customer_address s ON ws_ship_addr_sk = s.ca_address_sk AND b.ca_state <> s.ca_state
        GROUP BY b.ca_state, s.ca_state
        """,
    ),
    sql(
        "d_all_items_with_or_without_sales",
        """
        SELECT i_item_sk, i_category, count(cs_item_sk) AS lines, sum(cs_net_profit) AS profit
        FROM catalog_sales RIGHT JOIN item ON cs_item_sk = i_item_sk AND cs_quantity > 50
        GROUP BY i_item_sk, i_category ORDER BY i_item_sk
        """,
        ordered=True,
    ),
    sql(
        "d_stock_and_sales",
        """
        SELECT i_item_id, stock, sold
        FROM item
        JOIN (SELECT inv_item_sk, max(inv_quantity_on_hand) AS stock FROM inventory GROUP BY inv_item_sk)
          ON i_item_sk = inv_item_sk
        LEFT JOIN (SELECT cs_item_sk, sum(cs_quantity) AS sold FROM catalog_sales GROUP BY cs_item_sk)
          ON i_item_sk = cs_item_sk AND sold > stock
        """,
    ),
]

SUBQUERIES: list[Query] = [
    sql(
        "d_dear_in_their_category",
        """
        SELECT i_item_id, i_category, i_current_price FROM item a
        WHERE i_current_price > (SELECT 1.2 * avg(b.i_current_price) FROM item b WHERE b.i_category = a.i_category)
        ORDER BY i_current_price DESC, i_item_id
        """,
    ),
    sql(
        "d_bought_elsewhere_too",
        """
        SELECT c_birth_month, count(*) AS customers
        FROM ds_customer c
        WHERE EXISTS (SELECT * FROM web_sales WHERE ws_bill_customer_sk = c.c_customer_sk)
           OR EXISTS (SELECT * FROM catalog_sales WHERE cs_bill_customer_sk = c.c_customer_sk AND cs_quantity > 80)
        GROUP BY c_birth_month
        """,
    ),
    sql(
        "d_not_after_that_day",
        """
        SELECT ss_store_sk, count(*) AS lines
        FROM store_sales s
        WHERE ss_quantity > 20 AND NOT EXISTS (
            SELECT * FROM store_returns r
            WHERE r.sr_ticket_number = s.ss_ticket_number AND r.sr_returned_date_sk > s.ss_sold_date_sk + 20
        )
        GROUP BY ss_store_sk
        """,
    ),
    sql(
        "d_scalars_in_the_list",
        """
        SELECT i_category, count(*) AS items,
               (SELECT count(*) FROM store_sales WHERE ss_quantity > 90) AS large_store_lines,
               (SELECT max(ws_net_profit) FROM web_sales) AS best_web_line
        FROM item GROUP BY i_category
        """,
    ),
    sql(
        "d_items_that_sell_often",
        """
        SELECT i_category, i_class, count(*) AS items
        FROM item
        WHERE i_item_sk IN (SELECT ss_item_sk FROM store_sales GROUP BY ss_item_sk HAVING count(*) > 12)
          AND i_item_sk NOT IN (SELECT sr_item_sk FROM store_returns WHERE sr_item_sk IS NOT NULL
                                AND sr_return_quantity > 60)
        GROUP BY i_category, i_class
        """,
    ),
    sql(
        "d_better_than_last_year",
        """
        WITH yearly AS (
            SELECT i_category, d_year, sum(ss_net_paid) AS paid
            FROM store_sales JOIN item ON ss_item_sk = i_item_sk JOIN date_dim ON ss_sold_date_sk = d_date_sk
            GROUP BY i_category, d_year
        )
        SELECT now.i_category, now.d_year, before.paid AS paid_before, now.paid
        FROM yearly now JOIN yearly before ON now.i_category = before.i_category AND now.d_year = before.d_year + 1
        WHERE now.paid > before.paid
        ORDER BY now.i_category, now.d_year
        """,
        ordered=True,
    ),
    sql(
        "d_customers_above_their_state",
        """
        WITH spent AS (
            SELECT ss_customer_sk AS customer, ca_state AS state, sum(ss_net_paid) AS paid
            FROM store_sales JOIN customer_address ON ss_addr_sk = ca_address_sk
            GROUP BY ss_customer_sk, ca_state
        )
        SELECT c_customer_id, a.state, a.paid
        FROM spent a JOIN ds_customer ON a.customer = c_customer_sk
        WHERE a.paid > (SELECT avg(b.paid) * 1.1 FROM spent b WHERE a.state = b.state)
        """,
    ),
]

GROUPINGS: list[Query] = [
    sql(
        "d_rollup_of_classes",
        """
        SELECT i_category, i_class, grouping_id() AS level, sum(ws_ext_sales_price) AS sales, count(*) AS lines
        FROM web_sales JOIN item ON ws_item_sk = i_item_sk GROUP BY ROLLUP (i_category, i_class)
        """,
    ),
    sql(
        "d_sets_of_periods",
        """
        SELECT d_year, d_qoy, d_day_name, sum(cs_quantity) AS quantity, avg(cs_sales_price) AS price
        FROM catalog_sales JOIN date_dim ON cs_sold_date_sk = d_date_sk
        GROUP BY GROUPING SETS ((d_year, d_qoy), (d_day_name), ())
        """,
    ),
    sql(
        "d_cube_of_channels",
        """
        SELECT channel, i_category, sum(quantity) AS quantity
        FROM (SELECT 'web' AS channel, ws_item_sk AS item, ws_quantity AS quantity FROM web_sales
              UNION ALL SELECT 'store', ss_item_sk, ss_quantity FROM store_sales)
        JOIN item ON item = i_item_sk GROUP BY CUBE (channel, i_category)
        """,
    ),
    sql(
        "d_week_days_beside_each_other",
        """
        SELECT s_store_name, d_year,
               sum(ss_sales_price) FILTER (WHERE d_day_name = 'Sunday') AS sunday,
               sum(ss_sales_price) FILTER (WHERE d_day_name = 'Monday') AS monday,
               count(DISTINCT ss_customer_sk) FILTER (WHERE d_weekend = 'Y') AS weekend_customers
        FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN store ON ss_store_sk = s_store_sk
        GROUP BY s_store_name, d_year
        """,
    ),
    sql(
        "d_states_with_many_customers",
        """
        SELECT ca_state, count(DISTINCT c_customer_sk) AS customers, count(DISTINCT c_birth_year) AS years
        FROM ds_customer JOIN customer_address ON c_current_addr_sk = ca_address_sk
        GROUP BY ca_state HAVING count(DISTINCT c_customer_sk) > 3
        """,
    ),
    sql(
        "d_mail_domains",
        """
        SELECT regexp_replace(c_email_address, '^.*@', '') AS domain, initcap(lower(c_last_name)) AS name,
               count(*) AS customers, max(length(c_first_name)) AS longest
        FROM ds_customer
        WHERE c_email_address IS NOT NULL
        GROUP BY regexp_replace(c_email_address, '^.*@', ''), initcap(lower(c_last_name))
        """,
    ),
    sql(
        "d_days_until_returned",
        """
        SELECT CASE WHEN days < 30 THEN 'month' WHEN days < 60 THEN 'two' ELSE 'more' END AS within,
               count(*) AS returns, sum(sr_return_amt) AS amount
        FROM (
            SELECT datediff(r.d_date, s.d_date) AS days, sr_return_amt
            FROM store_sales
            JOIN store_returns ON ss_ticket_number = sr_ticket_number AND ss_item_sk = sr_item_sk
            JOIN date_dim s ON ss_sold_date_sk = s.d_date_sk
            JOIN date_dim r ON sr_returned_date_sk = r.d_date_sk
            WHERE date_add(s.d_date, 5) <= r.d_date
        ) GROUP BY 1
        """,
    ),
    sql(
        "d_middle_prices",
        """
        SELECT i_category, percentile(ss_sales_price, 0.5) AS middle, percentile(ss_quantity, array(0.1, 0.9)) AS tails,
               max(struct(ss_net_profit, ss_ticket_number)) AS best, stddev_pop(ss_quantity) AS deviation
        FROM store_sales JOIN item ON ss_item_sk = i_item_sk GROUP BY i_category
        """,
    ),
]

WINDOWS: list[Query] = [
    sql(
        "d_best_brands_of_a_year",
        """
        WITH sold AS (
            SELECT d_year, i_brand, sum(ws_ext_sales_price) AS sales
            FROM web_sales JOIN item ON ws_item_sk = i_item_sk JOIN date_dim ON ws_sold_date_sk = d_date_sk
            GROUP BY d_year, i_brand
        )
        SELECT * FROM (SELECT d_year, i_brand, sales, rank() OVER (PARTITION BY d_year ORDER BY sales DESC) AS place
                       FROM sold) WHERE place <= 5
        """,
    ),
    sql(
        "d_weeks_before_and_after",
        """
        SELECT ss_store_sk, d_week_seq, paid,
               lag(paid, 1, 0) OVER w AS before, lead(paid, 2) OVER w AS after, paid - avg(paid) OVER w AS above
        FROM (SELECT ss_store_sk, d_week_seq, sum(ss_net_paid) AS paid
              FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY ss_store_sk, d_week_seq)
        WINDOW w AS (PARTITION BY ss_store_sk ORDER BY d_week_seq)
        """,
    ),
    sql(
        "d_sales_so_far",
        """
        SELECT i_category, d_month_seq, sum(sum(cs_net_paid)) OVER (PARTITION BY i_category ORDER BY d_month_seq
               ROWS UNBOUNDED PRECEDING) AS so_far, count(*) AS lines
        FROM catalog_sales JOIN item ON cs_item_sk = i_item_sk JOIN date_dim ON cs_sold_date_sk = d_date_sk
        GROUP BY i_category, d_month_seq ORDER BY i_category, d_month_seq
        """,
        ordered=True,
    ),
    sql(
        "d_share_of_the_category",
        """
        SELECT i_category, i_item_id, i_current_price,
               i_current_price * 100 / sum(i_current_price) OVER (PARTITION BY i_category) AS percent,
               count(*) OVER () AS items
        FROM item WHERE i_current_price > 1
        """,
    ),
    sql(
        "d_first_and_last_purchase",
        """
        SELECT ss_customer_sk, min(first) AS first, max(last) AS last, count(*) AS lines
        FROM (SELECT ss_customer_sk,
                     first_value(ss_sold_date_sk) OVER (PARTITION BY ss_customer_sk
                         ORDER BY ss_ticket_number, ss_item_sk, ss_sold_date_sk) AS first,
                     last_value(ss_quantity) OVER (PARTITION BY ss_customer_sk ORDER BY ss_ticket_number, ss_item_sk,
                         ss_quantity ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS last
              FROM store_sales)
        GROUP BY ss_customer_sk
        """,
    ),
]

SETS: list[Query] = [
    sql(
        "d_in_all_channels",
        """
        SELECT count(*) AS customers, sum(customer) AS checksum FROM (
            SELECT ss_customer_sk AS customer FROM store_sales
            INTERSECT SELECT ws_bill_customer_sk FROM web_sales
            INTERSECT SELECT cs_bill_customer_sk FROM catalog_sales
        )
        """,
    ),
    sql(
        "d_store_but_not_web",
        """
        SELECT c_last_name, c_first_name FROM ds_customer JOIN store_sales ON c_customer_sk = ss_customer_sk
        EXCEPT
        SELECT c_last_name, c_first_name FROM ds_customer JOIN web_sales ON c_customer_sk = ws_bill_customer_sk
        """,
    ),
    sql(
        "d_bags_of_quantities",
        """
        (SELECT ss_quantity, ss_store_sk FROM store_sales WHERE ss_quantity < 30
         INTERSECT ALL SELECT ws_quantity, ws_web_site_sk FROM web_sales)
        EXCEPT ALL SELECT cs_quantity, cs_call_center_sk FROM catalog_sales WHERE cs_quantity < 10
        """,
    ),
    sql(
        "d_all_channels_by_category",
        """
        SELECT i_category, channel, sum(paid) AS paid FROM (
            SELECT ss_item_sk AS item, 'store' AS channel, ss_net_paid AS paid FROM store_sales
            UNION ALL SELECT ws_item_sk, 'web', ws_net_paid FROM web_sales
            UNION ALL SELECT cs_item_sk, 'catalog', cs_net_paid FROM catalog_sales
        ) JOIN item ON item = i_item_sk
        GROUP BY i_category, channel ORDER BY i_category, channel
        """,
        ordered=True,
    ),
    sql(
        "d_most_valued_customers",
        """
        SELECT c_customer_sk, c_last_name, sum(ss_net_profit) AS profit, count(*) AS lines
        FROM store_sales JOIN ds_customer ON ss_customer_sk = c_customer_sk
        GROUP BY c_customer_sk, c_last_name ORDER BY profit DESC NULLS LAST, c_customer_sk LIMIT 15
        """,
        ordered=True,
    ),
]

QUERIES = [*JOINS, *SUBQUERIES, *GROUPINGS, *WINDOWS, *SETS]
