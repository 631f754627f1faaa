"""mqadmin of both versions: what it prints of our broker is what it prints of Apache's in the same state."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.apache import ApacheCluster
from tests.interop.features import COMMANDS
from tests.interop.mqadmin import Step, Tool, about, normal, play, settings
from tests.interop.ours import GantryCluster

EVERYTHING = {"topicList", "topicList -c", "statsAll", "consumerProgress", "producer -b BROKER"}
"""Commands that list whatever a cluster has; the clusters are shared with other tests."""

Transcript = tuple[str, list[Step], list[Step]]
"""Version of mqadmin, and what it printed of our broker and of Apache's."""


@pytest.fixture(scope="module")
def mqadmin_4(gantry: GantryCluster, apache_4: ApacheCluster, tmp_path_factory: pytest.TempPathFactory) -> Transcript:
    return _transcript("4.9.7", gantry, apache_4, tmp_path_factory)


@pytest.fixture(scope="module")
def mqadmin_5(gantry: GantryCluster, apache_5: ApacheCluster, tmp_path_factory: pytest.TempPathFactory) -> Transcript:
    return _transcript("5.5.0", gantry, apache_5, tmp_path_factory)


def _transcript(
    version: str, ours: GantryCluster, theirs: ApacheCluster, factory: pytest.TempPathFactory
) -> Transcript:
    def steps(cluster: GantryCluster | ApacheCluster) -> list[Step]:
        tool = Tool(version, cluster, homes / cluster.kind, _topic(version))
        try:
            return list(play(tool))
        finally:
            tool.close()

    homes = factory.mktemp("mqadmin")
    with ThreadPoolExecutor() as threads:  # most of the time the tools only wait
        found = list(threads.map(steps, (ours, theirs)))
    return version, found[0], found[1]


def _topic(version: str) -> str:
    return f"Mqadmin{version.replace('.', '')}"


def _compared(step: Step, name: str) -> list[str]:
    lines = normal(step.text)
    if step.arguments == "clusterList -m":  # counts of all messages of the day
        return [re.sub(r"\d+", "N", line) for line in lines]
    return about(lines, name) if step.arguments in EVERYTHING else lines


def _rows(version: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "row",
        [pytest.param(row, marks=pytest.mark.feature(row, column=f"mqadmin {version}")) for row in COMMANDS.rows],
    )


@_rows("4.9.7")
def test_output_of_4(mqadmin_4: Transcript, row: str) -> None:
    _compare(mqadmin_4, row)


@_rows("5.5.0")
def test_output_of_5(mqadmin_5: Transcript, row: str) -> None:
    _compare(mqadmin_5, row)


def _compare(transcript: Transcript, row: str) -> None:
    version, ours, theirs = transcript
    pairs = [pair for pair in zip(ours, theirs, strict=True) if pair[0].row == row]
    assert pairs
    for our, their in pairs:
        special = SPECIAL.get(row)
        if special is not None:
            special(settings(our.text), settings(their.text), version)
            continue
        both = f"{our.arguments}\nours:\n{our.text}\nApache:\n{their.text}"
        assert _compared(our, _topic(version)) == _compared(their, _topic(version)), both


# Outputs that are tables of keys.

NOT_MEASURED = {
    "getMessageEntireTimeMax", "putLatency99", "putLatency999", "putMessageDistributeTime", "putMessageEntireTimeMax",
    "putMessageFailedTimes", "remainTransientStoreBufferNumbs", "remainHowManyDataToCommit",
}  # fmt: skip
"""Times of single writes and reads, and figures of a memory pool that we do not have."""
ONE_VERSION_ONLY = {
    "brokerVersion", "brokerActive", "getTransferredTps", "getTransferedTps", "timerCongestNum", "timerDequeueTps",
    "timerEnqueueTps", "timerOffsetBehind", "timerReadBehind",
}  # fmt: skip
"""Keys that only 4.x or only 5.x has; we say both."""


def _same_figures(ours: dict[str, str], theirs: dict[str, str], _version: str) -> None:
    """Every key that Apache's broker has and that we measure; the values are of the same form."""
    wanted = {_key(key): _form(value) for key, value in theirs.items() if key not in NOT_MEASURED | ONE_VERSION_ONLY}
    found = {_key(key): _form(value) for key, value in ours.items()}
    levels = {key for key in wanted if key.startswith("scheduleMessageOffset_")}  # only those that got a message
    wanted = {key: value for key, value in wanted.items() if key not in levels}
    assert {key: found.get(key) for key in wanted} == wanted
    assert {"brokerVersion", "brokerActive", "getTransferredTps", "getTransferedTps"} <= found.keys()


def _key(key: str) -> str:
    return "commitLogDiskRatio of a path" if key.startswith("commitLogDiskRatio_") else key


def _form(value: str) -> str:
    """Numbers that differ from moment to moment are left out; how many a rate has depends on the age of the broker."""
    value = re.sub(r"V\d_\d_\d+|GantryMQ \S+", "VERSION", value)
    text = re.sub(r"-?\d+(\.\d+)?(E-?\d+)?", "N", value)
    return re.sub(r"N( N)+", "N", text).replace("GiB", "B").replace("MiB", "B").replace("KiB", "B")


MOST_SETTINGS = 30
OURS_ALONE = {
    "bindAddress", "decisiveCheckGrace", "decisiveCheckGraceAtStart", "grpcPort", "httpBindAddress", "httpPort",
    "longPollingGatherMills", "maxConnections", "maxConnectionsPerHost",
    "maxBytesInFlight", "maxBytesInFlightPerHost", "maxRequestsPerSecond", "slowReaderTimeout", "firstRequestTimeout",
    "haAllowedAddresses", "haCutSurplus", "etcdAddr", "primaryLease", "etcdUser",
    "etcdPasswordFile", "etcdTrustCertPath", "etcdCertPath", "etcdKeyPath",
    "shortPollingTimeMills", "diskSpaceReserve", "maxTopics", "maxConsumerGroups",
    "orderlyLockGrace",
    "enableTopicMessageTypeCheck",  # a setting of Apache's proxy
    "haMasterAddress",  # not shown while it is not set
    # Apache has these in its AuthConfig, which the command does not show; plainAclFile is ours.
    "authenticationEnabled", "authorizationEnabled", "initAuthenticationUser", "innerClientAuthenticationCredentials",
    "authenticationWhitelist", "authorizationWhitelist", "authConfigPath", "aclEnable", "plainAclFile",
}  # fmt: skip
DIFFERENT = {
    "minInSyncReplicas": "nothing is acknowledged on one machine alone",
    "maxTransferCountOnMessageInMemory": "our clients and Spark ask for large pulls",
    "mappedFileSizeTimerLog": "the shared cluster of Apache has small files",
    "transactionOpMsgMaxSize": "the shared cluster of Apache writes each op message at once",
    "syncFlushTimeout": "a sender waits as long as the disk takes, unless a limit is set",
    "registerBrokerTimeoutMills": "a name server that does not answer is given up sooner",
    "haListenPort": "no port is open that whoever reaches it may read everything from, unless it is set",
    "inSyncReplicas": "a SYNC_MASTER that waits for nobody is none",
    "listenPort": "each its own",
    "namesrvAddr": "each its own",
    "storePathRootDir": "each its own",
    "storePathCommitLog": "each its own",
}
"""Settings whose values differ, and why."""


def _same_settings(ours: dict[str, str], theirs: dict[str, str], version: str) -> None:
    """Every setting we have is one of Apache's, with the same value."""
    if version.startswith("5"):  # many are newer than 4.9
        assert ours.keys() - theirs.keys() <= OURS_ALONE
    both = (ours.keys() & theirs.keys()) - DIFFERENT.keys()
    assert len(both) > MOST_SETTINGS
    assert {key: ours[key] for key in both} == {key: theirs[key] for key in both}


SPECIAL = {"brokerStatus": _same_figures, "getBrokerConfig": _same_settings}
