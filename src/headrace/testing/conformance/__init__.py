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

from headrace.testing.conformance.flows.across_queues import (
    FarFlowsConformance,
    LargeFlowsConformance,
)
from headrace.testing.conformance.flows.additions import AdditionsConformance
from headrace.testing.conformance.flows.counts import FlowCountsConformance
from headrace.testing.conformance.flows.failures import FlowFailuresConformance
from headrace.testing.conformance.flows.far_resumption import FarResumptionConformance
from headrace.testing.conformance.flows.follow import FollowConformance
from headrace.testing.conformance.flows.joins import JoinsConformance
from headrace.testing.conformance.flows.resumption import ResumptionConformance
from headrace.testing.conformance.gates.batch_moves import BatchMovesConformance
from headrace.testing.conformance.gates.batches import BatchesConformance
from headrace.testing.conformance.gates.debounce import DebounceConformance
from headrace.testing.conformance.gates.lanes import LanesConformance
from headrace.testing.conformance.gates.limits import LimitsConformance
from headrace.testing.conformance.gates.mixed_widths import MixedWidthsConformance
from headrace.testing.conformance.gates.pace import PaceConformance
from headrace.testing.conformance.gates.pause import PauseConformance
from headrace.testing.conformance.gates.priorities import PrioritiesConformance
from headrace.testing.conformance.gates.runner_labels import RunnerLabelsConformance
from headrace.testing.conformance.gates.runners import RunnersConformance
from headrace.testing.conformance.gates.task_lanes import TaskLanesConformance
from headrace.testing.conformance.gates.unique import TicksConformance, UniqueConformance
from headrace.testing.conformance.jobs.append import AppendConformance
from headrace.testing.conformance.jobs.cancellation import CancellationConformance
from headrace.testing.conformance.jobs.delivery import DeliveryConformance
from headrace.testing.conformance.jobs.lookup import LookupConformance
from headrace.testing.conformance.jobs.mix import MixConformance
from headrace.testing.conformance.jobs.release import ReleaseConformance
from headrace.testing.conformance.jobs.repeats import RepeatsConformance
from headrace.testing.conformance.jobs.reports import OnceConformance, ReportsConformance
from headrace.testing.conformance.jobs.running_cancellation import RunningCancellationConformance
from headrace.testing.conformance.jobs.settlement import SettlementConformance
from headrace.testing.conformance.jobs.upkeep import CrowdedConformance, UpkeepConformance
from headrace.testing.conformance.kv import KvConformance
from headrace.testing.conformance.queues.browse import BrowseConformance
from headrace.testing.conformance.queues.facts import FactsConformance
from headrace.testing.conformance.queues.forgetting import ForgettingConformance
from headrace.testing.conformance.queues.history import HistoryConformance
from headrace.testing.conformance.queues.key_bounds import KeyBoundsConformance
from headrace.testing.conformance.queues.queue_bounds import QueueBoundsConformance
from headrace.testing.conformance.queues.queue_concurrency import QueueConcurrencyConformance
from headrace.testing.conformance.queues.queue_retention import QueueRetentionConformance
from headrace.testing.conformance.queues.removal import RemovalConformance
from headrace.testing.conformance.queues.rescheduling import ReschedulingConformance
from headrace.testing.conformance.queues.starts import StartsConformance
from headrace.testing.conformance.queues.stats import StatsConformance
from headrace.testing.conformance.queues.surveys import LocateConformance, SurveysConformance
from headrace.testing.conformance.topics.bounds import BoundsConformance
from headrace.testing.conformance.topics.faults import GroupFaultsConformance
from headrace.testing.conformance.topics.foreign_events import ForeignEventsConformance
from headrace.testing.conformance.topics.groups import GroupsConformance
from headrace.testing.conformance.topics.join import GroupJoinConformance
from headrace.testing.conformance.topics.key_failures import KeyFailuresConformance
from headrace.testing.conformance.topics.logs import LogsConformance
from headrace.testing.conformance.topics.mix import TopicMixConformance
from headrace.testing.conformance.topics.ordered import OrderedConformance
from headrace.testing.conformance.topics.reports import GroupReportsConformance
from headrace.testing.conformance.topics.rewind import RewindConformance
from headrace.testing.conformance.topics.rewound_keys import RewoundKeysConformance
from headrace.testing.conformance.topics.settlement import GroupSettlementConformance
from headrace.testing.conformance.topics.trim import TrimConformance


class StoreConformance(
    AppendConformance,
    RepeatsConformance,
    DeliveryConformance,
    SettlementConformance,
    UpkeepConformance,
    PrioritiesConformance,
    RunnersConformance,
    TaskLanesConformance,
    RunnerLabelsConformance,
    ReleaseConformance,
    LanesConformance,
    MixedWidthsConformance,
    LimitsConformance,
    PaceConformance,
    BatchesConformance,
    BatchMovesConformance,
    UniqueConformance,
    DebounceConformance,
    TicksConformance,
    JoinsConformance,
    FlowFailuresConformance,
    FollowConformance,
    FarFlowsConformance,
    LargeFlowsConformance,
    ResumptionConformance,
    FarResumptionConformance,
    FlowCountsConformance,
    AdditionsConformance,
    CancellationConformance,
    RunningCancellationConformance,
    PauseConformance,
    RemovalConformance,
    QueueBoundsConformance,
    KeyBoundsConformance,
    QueueConcurrencyConformance,
    QueueRetentionConformance,
    ReschedulingConformance,
    ReportsConformance,
    OnceConformance,
    KvConformance,
    FactsConformance,
    HistoryConformance,
    ForgettingConformance,
    StartsConformance,
    StatsConformance,
    LookupConformance,
    BrowseConformance,
    SurveysConformance,
    LocateConformance,
    MixConformance,
    LogsConformance,
    GroupsConformance,
    GroupJoinConformance,
    GroupSettlementConformance,
    GroupReportsConformance,
    GroupFaultsConformance,
    ForeignEventsConformance,
    OrderedConformance,
    KeyFailuresConformance,
    RewindConformance,
    RewoundKeysConformance,
    BoundsConformance,
    TrimConformance,
    TopicMixConformance,
    CrowdedConformance,
):
    """All of them."""


__all__ = ["StoreConformance"]
