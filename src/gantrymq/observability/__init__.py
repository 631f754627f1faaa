"""What is measured: metrics are declared here once, and read by everybody who shows them."""
