"""Messages that are delivered later than they came: delayed, timed, retried, waited for."""
