"""The broker: it stores messages, serves consumers and checks transactions.

``broker.py`` puts its parts together; ``remoting/request_table.py`` lists the requests that it answers.
"""
