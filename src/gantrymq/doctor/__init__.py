"""What is wrong with a cluster, and what to do about it. ``gantry doctor`` and the console's first page use it.

Looking is apart from judging. ``look_at_cluster`` asks name servers and brokers, and gives frozen facts. No error
leaves it, because a peer that does not answer is a fact, too. ``findings_of`` judges facts and asks nobody::

    from gantrymq.doctor import Facts, Severity, findings_of, look_at_cluster

    cluster = await look_at_cluster(admin)      # some questions to each broker; at most about 10 s, all peers at once
    for finding in findings_of(Facts(cluster)): # the worst first
        finding.severity                        # Severity.ERROR, WARNING or NOTE
        finding.kind, finding.subject           # Kind.GROUP, "order-service": what a page may link to
        finding.sentence, finding.advice        # what is wrong; what to do
        finding.rule                            # "nobody-can-decide": stable, for programs and for choosing
    cluster.at_ms                               # when it was looked at, ms since 1970

Who draws the findings escapes sentences and advice as any text of other programs: they contain names of groups.
``look_at_machine`` and ``look_at_store`` add what only a program on the same machine sees.
"""

from __future__ import annotations

from gantrymq.doctor.cluster import look_at_cluster
from gantrymq.doctor.facts import Facts
from gantrymq.doctor.findings import Finding, Kind, Severity
from gantrymq.doctor.judging import findings_of

__all__ = ["Facts", "Finding", "Kind", "Severity", "findings_of", "look_at_cluster"]
