"""Jobs and events as part of a transaction of your own database.

`Outbox` writes them beside your rows, so they are sent exactly if the transaction commits; a
`Relay` sends them. `Inbox` records in your transaction which deliveries were handled, so that a
redelivery changes nothing.
"""

from headrace.outbox.inbox import Inbox
from headrace.outbox.outbox import Outbox
from headrace.outbox.relay import Relay
from headrace.outbox.rows import FailedRow

__all__ = ["FailedRow", "Inbox", "Outbox", "Relay"]
