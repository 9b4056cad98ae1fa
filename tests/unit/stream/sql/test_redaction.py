"""Statements without passwords."""

from __future__ import annotations

import pytest

from binlake.stream.sql.redaction import without_passwords


@pytest.mark.parametrize(("sql", "shown"), [
    ("CREATE USER 'a'@'h' IDENTIFIED BY 'x'", "CREATE USER 'a'@'h' IDENTIFIED BY '***'"),
    ("CREATE USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$''x\\'y' REQUIRE SUBJECT 's' PASSWORD EXPIRE INTERVAL 90 DAY COMMENT 'c'",
     "CREATE USER 'a'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '***' REQUIRE SUBJECT 's' PASSWORD EXPIRE INTERVAL 90 DAY COMMENT 'c'"),
    ("alter user a identified with p as 0x2A3B, 'b'@'h' identified by _utf8mb4'y' replace 'z'",
     "alter user a identified with p as '***', 'b'@'h' identified by '***' replace '***'"),
    ("ALTER USER a IDENTIFIED BY 'x' AND IDENTIFIED WITH p INITIAL AUTHENTICATION IDENTIFIED BY 'y'",
     "ALTER USER a IDENTIFIED BY '***' AND IDENTIFIED WITH p INITIAL AUTHENTICATION IDENTIFIED BY '***'"),
    ("GRANT SELECT ON d.* TO 'a'@'h' IDENTIFIED BY PASSWORD '*9F'", "GRANT SELECT ON d.* TO 'a'@'h' IDENTIFIED BY PASSWORD '***'"),
    ("CREATE USER a IDENTIFIED VIA ed25519 USING PASSWORD('x') OR mysql_native_password AS '*9F'",
     "CREATE USER a IDENTIFIED VIA ed25519 USING PASSWORD('***') OR mysql_native_password AS '***'"),
    ("SET PASSWORD FOR 'a'@'h'='*9F'", "SET PASSWORD FOR 'a'@'h'='***'"),
    ("SET PASSWORD FOR `a`@`h` = \"x\" REPLACE 'y'", "SET PASSWORD FOR `a`@`h` = '***' REPLACE '***'"),
    ("SET PASSWORD = OLD_PASSWORD('x')", "SET PASSWORD = OLD_PASSWORD('***')"),
    ("CREATE USER a /* IDENTIFIED BY 'no' */ /*!50700 IDENTIFIED BY */ /* so */ 'x'", "CREATE USER a /* IDENTIFIED BY 'no' */ /*!50700 IDENTIFIED BY */ /* so */ '***'"),
    ("CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD 'x', HOST 'h')",
     "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD '***', HOST 'h')"),
    ("CREATE TABLE t (id INT, password VARCHAR(9) DEFAULT 'd') ENGINE=FEDERATED CONNECTION='mysql://u:p@h/d/t' COMMENT='c'",
     "CREATE TABLE t (id INT, password VARCHAR(9) DEFAULT 'd') ENGINE=FEDERATED CONNECTION='***' COMMENT='c'"),
    ("CREATE TABLE `password` (`connection` INT) COMMENT 'identified'", "CREATE TABLE `password` (`connection` INT) COMMENT 'identified'"),
    ("SELECT CONNECTION_ID(), 'x'", "SELECT CONNECTION_ID(), 'x'"),
    ("CREATE USER a IDENTIFIED BY 'cut of", "CREATE USER a IDENTIFIED BY '***'"),
    ("SET PASSWORD FOR 'a'@'h' = 'cut of", "SET PASSWORD FOR 'a'@'h' = '***'"),
    ("CREATE SERVER s OPTIONS (PASSWORD 'no escapes\\')", "CREATE SERVER s OPTIONS (PASSWORD '***'"),
])  # fmt: skip
def test_passwords_are_hidden(sql: str, shown: str) -> None:
    assert without_passwords(sql) == shown
