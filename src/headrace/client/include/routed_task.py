"""A task that is declared on a `Tasks`, and becomes that of an app later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack

from headrace.client.include.not_included import NotIncluded
from headrace.client.task import Task
from headrace.core.task.call import Call
from headrace.core.task.send_options import SendKwargs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from headrace.core.task.options import TaskOptions

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class RoutedTask(Task[P, R_co]):
    """Can be called, and be given options, before an app includes it; all else is refused until
    then."""

    app: Any

    def __init__(
        self,
        app: NotIncluded,
        function: Callable[..., Any],
        declared: TaskOptions,
        given: Mapping[str, Any],
    ) -> None:
        super().__init__(app, function, declared)
        self.given = given
        """The options as they were given, which those of the app are still to be added to."""
        self._changed: list[tuple[Self, Self, Mapping[str, Any]]] = []
        """What `options` made before it was included: source, copy and changes."""

    @property
    def is_included(self) -> bool:
        return not isinstance(self.app, NotIncluded)

    def adopt(self, made: Task[..., Any], modules: tuple[str, ...]) -> None:
        """Become the task that an app made of the same function, since these modules include it."""
        vars(self).update(vars(made))
        self.included_by = modules

    def settle_options(self) -> None:
        """Have what `options` made meanwhile become tasks of the app too."""
        for source, other, changes in self._changed:
            vars(other).update(vars(source))
            other._sending = source._sending.changed(**changes)
        self._changed.clear()

    def options(self, **changes: Unpack[SendKwargs]) -> Self:
        other = super().options(**changes)
        if not self.is_included:
            self._changed.append((self, other, changes))
        return other

    def call(self, *args: Any, **kwargs: Any) -> Any:
        self.check_included()
        return super().call(*args, **kwargs)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call[Any]:
        self.check_included()
        return super()._call(args, kwargs)

    def check_included(self) -> None:
        """`ConfigError` says what to do if no app includes it."""
        if isinstance(self.app, NotIncluded):
            self.app.refuse()
