"""The modules that `include=` names: imported when all tasks are needed, and not before."""

from __future__ import annotations

import importlib
import sys
import threading
import traceback
from collections.abc import Sequence

from headrace.client.include.tasks import Tasks
from headrace.errors import ConfigError, HeadraceError


class ModuleFailed(ConfigError):
    """A module could not be imported; `__cause__` is its own error."""


class IncludedModules:
    """Imports modules once. They are not imported where the app is declared, as they usually import
    it themselves."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._loaded = not names
        self._here = threading.local()
        """Whether this thread is loading. Python has each module wait for the thread that imports
        it; a lock of ours around that would make two threads wait for one another."""
        self._failure: ConfigError | None = None

    def load(self, app: object) -> None:
        """Import what has not been imported yet; `ConfigError` names the module that fails, each
        time: half of its tasks may be declared."""
        # A module that asks for all tasks while it is imported itself has to do without.
        if self._loaded or getattr(self._here, "is_loading", False):
            return
        self._here.is_loading = True
        try:
            self._import_all(app)
        except ConfigError as error:
            self._failure = self._failure or error
            raise self._failure from self._failure.__cause__
        finally:
            self._here.is_loading = False

    def _import_all(self, app: object) -> None:
        for name in self._names:
            if self._failure is not None:
                raise self._failure
            self._import(name)
        if any(_is_being_imported(name) for name in self._names):
            return
        _check_not_imported_twice(app)
        for name in self._names:
            _check_nothing_is_left_out(name)
        self._loaded = True

    def _import(self, name: str) -> None:
        try:
            importlib.import_module(name)
        except HeadraceError as error:
            raise ConfigError(f"module {name!r}, which the app includes: {error}") from error
        except (Exception, SystemExit) as error:
            if is_missing(name, error):
                raise ConfigError(
                    f"the app includes module {name!r}, and there is no such module in this "
                    "directory or on the Python path"
                ) from None
            raise ModuleFailed(
                f"module {name!r}, which the app includes, cannot be imported: {last_line(error)}"
            ) from error
        except BaseException as error:
            self._failure = ConfigError(
                f"module {name!r}, which the app includes, was interrupted while it was imported, "
                f"by {last_line(error)}: start the program again"
            )
            raise


def _is_being_imported(name: str) -> bool:
    """Whether the module is in the middle of its import: by a caller of this, or by another thread
    that waits for this one."""
    return bool(getattr(sys.modules[name].__spec__, "_initializing", False))


def _check_not_imported_twice(app: object) -> None:
    """Refuse a program whose own file was imported by its modules: they have another app."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    names = [name for name, value in vars(main).items() if value is app] if file else []
    for twin, module in list(sys.modules.items()) if names else ():
        if module is not main and getattr(module, "__file__", None) == file:
            raise ConfigError(
                f"{file} runs as a program, and its modules import it as {twin!r}, so there are "
                f"two apps: run headrace worker {twin}:{names[0]}, or make the app in a module of "
                "its own"
            )


def _check_nothing_is_left_out(module: str) -> None:
    """Refuse a module whose tasks would be missing: naming it does not include its `Tasks`."""
    for name, value in vars(sys.modules[module]).items():
        if isinstance(value, Tasks) and value.is_left_out:
            raise ConfigError(
                f"module {module!r}, which the app includes, declares tasks on {name}, and no app "
                f"includes that: call app.include({name}) where the app is made"
            )


def is_missing(module: str, error: BaseException) -> bool:
    """Whether the module is not there; if it misses another, that is a bug of its own."""
    return isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}.")


def last_line(error: BaseException) -> str:
    """The error as the last line of its traceback."""
    return traceback.format_exception_only(error)[-1].strip()
