"""The promises of `headrace.store.contract`, as tests that run on any store.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        async def store(self) -> AsyncIterator[Store]:
            store = MyStore(...)
            await store.open()
            yield store
            await store.close()

A store with a clock of its own also overrides `pass_time`, so that no test has to wait; one that
can look into itself overrides `left_behind`. The tests are coroutines: run them with pytest-asyncio
in auto mode.
"""

from headrace.testing.conformance.asking import AskingConformance
from headrace.testing.conformance.bounds import BoundsConformance
from headrace.testing.conformance.browsing import BrowsingConformance
from headrace.testing.conformance.cancelling import CancellingConformance
from headrace.testing.conformance.crowded import CrowdedConformance
from headrace.testing.conformance.debouncing import DebouncingConformance
from headrace.testing.conformance.delivering import DeliveringConformance
from headrace.testing.conformance.failing_flows import FailingFlowsConformance
from headrace.testing.conformance.far_flows import FarFlowsConformance, LargeFlowsConformance
from headrace.testing.conformance.flows import FlowsConformance
from headrace.testing.conformance.following import FollowingConformance
from headrace.testing.conformance.foreign_events import ForeignEventsConformance
from headrace.testing.conformance.group_faults import GroupFaultsConformance
from headrace.testing.conformance.group_reporting import GroupReportingConformance
from headrace.testing.conformance.group_settling import GroupSettlingConformance
from headrace.testing.conformance.groups import GroupsConformance
from headrace.testing.conformance.history import HistoryConformance
from headrace.testing.conformance.joining import JoiningConformance
from headrace.testing.conformance.key_failures import KeyFailuresConformance
from headrace.testing.conformance.kv import KvConformance
from headrace.testing.conformance.lanes import LanesConformance
from headrace.testing.conformance.limits import LimitsConformance
from headrace.testing.conformance.logs import LogsConformance
from headrace.testing.conformance.mixed_widths import MixedWidthsConformance
from headrace.testing.conformance.mixing import MixingConformance
from headrace.testing.conformance.ordered import OrderedConformance
from headrace.testing.conformance.pacing import PacingConformance
from headrace.testing.conformance.pausing import PausingConformance
from headrace.testing.conformance.priorities import PrioritiesConformance
from headrace.testing.conformance.removing import RemovingConformance
from headrace.testing.conformance.repeating import RepeatingConformance
from headrace.testing.conformance.reporting import MarksConformance, ReportingConformance
from headrace.testing.conformance.rewinding import RewindingConformance
from headrace.testing.conformance.rewinding_keys import RewindingKeysConformance
from headrace.testing.conformance.sending import SendingConformance
from headrace.testing.conformance.settling import SettlingConformance
from headrace.testing.conformance.stats import StatsConformance
from headrace.testing.conformance.stopping import StoppingConformance
from headrace.testing.conformance.surveys import LocatingConformance, SurveysConformance
from headrace.testing.conformance.topic_mixing import TopicMixingConformance
from headrace.testing.conformance.trimming import TrimmingConformance
from headrace.testing.conformance.unique import TicksConformance, UniqueConformance
from headrace.testing.conformance.upkeep import UpkeepConformance


class StoreConformance(
    SendingConformance,
    RepeatingConformance,
    DeliveringConformance,
    SettlingConformance,
    UpkeepConformance,
    PrioritiesConformance,
    LanesConformance,
    MixedWidthsConformance,
    LimitsConformance,
    PacingConformance,
    UniqueConformance,
    DebouncingConformance,
    TicksConformance,
    FlowsConformance,
    FailingFlowsConformance,
    FollowingConformance,
    FarFlowsConformance,
    LargeFlowsConformance,
    CancellingConformance,
    StoppingConformance,
    PausingConformance,
    RemovingConformance,
    ReportingConformance,
    MarksConformance,
    KvConformance,
    HistoryConformance,
    StatsConformance,
    AskingConformance,
    BrowsingConformance,
    SurveysConformance,
    LocatingConformance,
    MixingConformance,
    LogsConformance,
    GroupsConformance,
    JoiningConformance,
    GroupSettlingConformance,
    GroupReportingConformance,
    GroupFaultsConformance,
    ForeignEventsConformance,
    OrderedConformance,
    KeyFailuresConformance,
    RewindingConformance,
    RewindingKeysConformance,
    BoundsConformance,
    TrimmingConformance,
    TopicMixingConformance,
    CrowdedConformance,
):
    """All of them."""


__all__ = ["StoreConformance"]
