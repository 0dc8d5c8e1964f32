"""What a batch function returns for one item."""

from __future__ import annotations

import pytest

from headrace.core.task.batch_items import awaited_item, only_item


async def test_the_only_item_is_its_result() -> None:
    async def doubled() -> list[int]:
        return [4]

    assert await awaited_item(doubled()) == 4
    assert (only_item([3]), only_item(None), only_item([])) == (3, None, None)
    with pytest.raises(KeyError, match="x"):
        only_item([KeyError("x")])
