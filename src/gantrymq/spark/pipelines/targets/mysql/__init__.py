"""Tables in MySQL and MariaDB, written with PyMySQL."""
