"""Copies what options mean into the docstrings of the functions that take them.

    python tools/option_docs.py           # writes them into src/headrace
    python tools/option_docs.py --check   # fails if a file would change

Editors show the docstring of `@app.task`, and nothing of the TypedDict whose fields its `**options`
are. What a field means is written once, in the string below it. Each function that takes
`**options: Unpack[…]`, or has an overload that does, and has a section `Args:` gets these texts
there, behind those of its own parameters. A field that says nothing means what the field of the
same name in `TaskKwargs` does. A test runs this again and compares.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "src" / "headrace"
USUAL = "TaskKwargs"
WIDTH = 100

Function = ast.FunctionDef | ast.AsyncFunctionDef
Texts = dict[str, str]


class Docstring(NamedTuple):
    """A docstring with a section `Args:`, taken apart."""

    before: str
    args: Texts
    after: str

    @classmethod
    def of(cls, text: str) -> Docstring:
        """Of the text between the quotes, without its indentation."""
        before, _, rest = text.partition("\nArgs:\n")
        lines = rest.splitlines()
        end = next((i for i, line in enumerate(lines) if line[:1].strip()), len(lines))
        args: Texts = {}
        for entry in re.split(r"\n(?= {4}\S)", "\n".join(lines[:end])):
            if match := re.match(r" {4}(\*{0,2}\w+): ", entry):
                args[match[1]] = " ".join(entry[match.end() :].split())
        return cls(before.rstrip(), args, "\n".join(lines[end:]).strip())

    def text(self, indent: int) -> str:
        """The lines of the whole docstring, quotes included."""
        lines = [f'"""{self.before}', "", "Args:"]
        for name, said in self.args.items():
            lines += textwrap.wrap(
                f"{name}: {said}",
                WIDTH - indent,
                initial_indent=" " * 4,
                subsequent_indent=" " * 8,
                break_long_words=False,
                break_on_hyphens=False,
            )
        lines += ["", self.after] if self.after else []
        return textwrap.indent("\n".join([*lines, '"""']), " " * indent).lstrip() + "\n"


def option_texts() -> dict[str, Texts]:
    """What each option means, by TypedDict; inherited ones come first."""
    classes: dict[str, ast.ClassDef] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        if "TypedDict" in path.read_text():
            tree = ast.parse(path.read_text())
            classes |= {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def texts(name: str) -> Texts:
        node = classes.get(name)
        bases = [base.id for base in node.bases if isinstance(base, ast.Name)] if node else []
        inherited: Texts = {}
        for base in bases:
            inherited |= texts(base)
        return inherited | (_fields(node) if node else {})

    usual = texts(USUAL)
    return {
        name: {field: said or usual.get(field, "") for field, said in texts(name).items()}
        for name in classes
    }


def _fields(node: ast.ClassDef) -> Texts:
    found: Texts = {}
    for field, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            said = below.value if isinstance(below, ast.Expr) else None
            text = said.value if isinstance(said, ast.Constant) else ""
            found[field.target.id] = " ".join(str(text).split())
    return found


def with_options(source: str, options: dict[str, Texts]) -> str:
    """A module with the texts of the options in its docstrings."""
    lines = source.splitlines(keepends=True)
    for function, taken in reversed(list(_functions(ast.parse(source)))):
        documented = function.body[0]
        assert isinstance(documented, ast.Expr)
        first, last = documented.lineno - 1, documented.end_lineno or 0
        docstring = docstring_at(lines, documented)
        if docstring is None:
            continue
        copied: Texts = {}
        for kind in taken:
            copied |= options.get(kind, {})
        own = {name: said for name, said in docstring.args.items() if name not in copied}
        written = docstring._replace(args=own | copied).text(documented.col_offset)
        lines[first:last] = [" " * documented.col_offset + written]
    return "".join(lines)


def docstring_at(lines: list[str], documented: ast.Expr) -> Docstring | None:
    """The docstring that stands there; None if it has no section `Args:`."""
    text = "".join(lines[documented.lineno - 1 : documented.end_lineno]).strip().strip('"')
    first, _, rest = text.partition("\n")
    text = f"{first}\n{textwrap.dedent(rest)}"
    return Docstring.of(text) if "\nArgs:" in text else None


def _functions(tree: ast.Module) -> Iterator[tuple[Function, list[str]]]:
    """The functions that take options, each with the TypedDicts of all its overloads."""
    scopes = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    for scope in scopes:
        taken: dict[str, list[str]] = {}
        for node in scope.body:
            if not isinstance(node, Function):
                continue
            kind = node.args.kwarg and node.args.kwarg.annotation
            match = re.fullmatch(r"Unpack\[(\w+)\]", ast.unparse(kind) if kind else "")
            names = taken.setdefault(node.name, [])
            if match and match[1] not in names:
                names.append(match[1])
            if names and ast.get_docstring(node) is not None:
                yield node, names


def main() -> None:
    options = option_texts()
    changed = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text()
        if "Unpack[" in source and (written := with_options(source, options)) != source:
            changed.append(str(path.relative_to(PACKAGE)))
            if "--check" not in sys.argv:
                path.write_text(written)
    if changed and "--check" in sys.argv:
        sys.exit(f"run python tools/option_docs.py: it would change {', '.join(changed)}")


if __name__ == "__main__":
    main()
