"""The promises of `headrace.store.contract`, as tests that run on any store.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        async def store(self) -> AsyncIterator[Store]:
            store = MyStore(...)
            await store.open()
            yield store
            await store.close()

A store with a clock of its own also overrides `pass_time`, so that no test has to wait. The tests
are coroutines: run them with pytest-asyncio in auto mode.
"""

from headrace.testing.conformance.asking import AskingConformance
from headrace.testing.conformance.delivering import DeliveringConformance
from headrace.testing.conformance.sending import SendingConformance
from headrace.testing.conformance.settling import SettlingConformance
from headrace.testing.conformance.upkeep import UpkeepConformance


class StoreConformance(
    SendingConformance,
    DeliveringConformance,
    SettlingConformance,
    UpkeepConformance,
    AskingConformance,
):
    """All of them."""


__all__ = ["StoreConformance"]
