from __future__ import annotations

import pytest

from headrace import Headrace, Topic
from tests.tour.heard import Heard, Paid


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def orders(app: Headrace) -> Topic[Paid]:
    return app.topic("orders", Paid, key=lambda event: event.order)
