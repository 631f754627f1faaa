"""Gives the C files of mypyc the docstrings of their sources, which mypyc itself leaves out.

Where CPython keeps the docstring of a type or a function, mypyc 2.4 writes only a signature (``send($self)`` and a line
``--``). It is compiled itself, so none of its functions can be replaced. So this works on the text that it wrote.
The docstring goes behind the signature, which ``inspect.signature`` still reads. Two things have no such place: the
module, and a class that mypyc makes by a call of its metaclass (an enum). There it is set as an attribute. Coroutines
have none: mypyc makes objects of them that ignore it, and refuse the attribute.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chosen import Module

_TABLE: Final = re.compile(r"^static Py(?:MethodDef|GetSetDef) (\w+)\[\] = \{\n.*?^\};", re.M | re.S)
_TYPE: Final = re.compile(r"^static PyTypeObject CPyType_(\w+)_template_ = \{\n.*?^\};", re.M | re.S)
_TYPE_NAME: Final = re.compile(r'\.tp_name = "(\w+)"')
_LITERAL: Final = r'(?P<doc>NULL|"(?:[^"\\]|\\.)*")'
_TYPE_DOC: Final = re.compile(rf"(?P<before>\.tp_doc = PyDoc_STR\(){_LITERAL}")
_METHOD: Final = re.compile(
    rf'(?P<before>\{{"(?P<name>\w+)",\s*\(PyCFunction\)\w+,[\w\s|]+, PyDoc_STR\(){_LITERAL}(?=\))'
)
_PROPERTY: Final = re.compile(
    r'(?P<before>\{"(?P<name>\w+)",\s*\(getter\)\w+,\s*(?:\(setter\)\w+|NULL),\s*)(?P<doc>NULL)(?=, NULL\})'
)
_BODY: Final = re.compile(r"^static int CPyExec_\w+__impl\(PyObject \*module\)\n", re.M)
_BODY_HAS_RUN: Final = re.compile(r"^    Py_DECREF\(modname\);\n    return 0;\n", re.M)
_MODULE: Final = re.compile(r"^    (?P<names>\w+___globals) = PyModule_GetDict\((?P<module>\w+)\);", re.M)

_INCLUDES: Final = re.compile(r"\A(?:#include .*\n)+")
_SET_DOC: Final = """
static inline int gantry_set_doc(PyObject *owner, const char *doc)
{
    PyObject *text = PyUnicode_FromString(doc);
    int done = text == NULL ? -1 : owner == NULL ? 0 : PyObject_SetAttrString(owner, "__doc__", text);
    Py_XDECREF(text);
    return done;
}
"""
"""No owner: a class that the module has deleted again."""


_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Docstrings:
    """What one source says of itself, as written."""

    module: str
    by_name: dict[str, str] = field(default_factory=dict)
    """Of classes, and of functions outside of functions: by ``Class.method``. A property has that of its getter."""
    classes: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, source: str) -> Docstrings:
        tree = ast.parse(source)
        found = cls(_docstring(tree))
        for name, definition in _definitions(tree.body):
            if isinstance(definition, ast.ClassDef):
                found.classes.add(name)
            if text := _docstring(definition):
                found.by_name[name] = text
        return found


def _definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, _Definition]]:
    for node in body:
        if isinstance(node, _Definition):
            yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If):
            yield from _definitions([*node.body, *node.orelse], prefix)


def _docstring(node: ast.Module | _Definition) -> str:
    return ast.get_docstring(node, clean=False) or ""


def keep(directory: Path, modules: list[Module]) -> list[str]:
    """Put the docstrings of the modules into the C files that mypyc has written for them below ``directory``.

    Returns:
        The full names of what has a docstring that found no place, sorted. Another mypyc may write other C; the modules
        work without.
    """
    homeless: list[str] = []
    for module in modules:
        says = Docstrings.of(module.path.read_text(encoding="utf-8"))
        place = directory / f"__native_{module.name.replace('.', '___')}.c"
        written, placed = with_docstrings(place.read_text(encoding="utf-8"), says)
        place.write_text(written, encoding="utf-8")
        homeless += (f"{module.name}.{name}" for name in says.by_name.keys() - placed)
    return sorted(homeless)


def with_docstrings(c_text: str, says: Docstrings) -> tuple[str, set[str]]:
    """The text of a C file with the docstrings in it, and the names of what has got its own."""
    placed: set[str] = set()
    types = {found[1]: _searched(_TYPE_NAME, found[0]) for found in _TYPE.finditer(c_text)}
    # mypyc makes a class with __call__ of a decorated function, and of a method of an enum.
    callables = {"_".join([*reversed(name.split(".")), "obj"]): name for name in says.by_name}

    def documented(found: re.Match[str], name: str) -> str:
        if (text := says.by_name.get(name)) is None:
            return found[0]
        placed.add(name)
        return found["before"] + _behind(found["doc"], text)

    def table(found: re.Match[str]) -> str:
        owner, _, kind = found[1].rpartition("_")
        prefix = f"{types[owner]}." if owner in types else ""
        entry = _PROPERTY if kind == "getseters" else _METHOD
        return entry.sub(lambda each: documented(each, prefix + each["name"]), found[0])

    def type_(found: re.Match[str]) -> str:
        name = types[found[1]]
        return _TYPE_DOC.sub(lambda each: documented(each, callables.get(name, name)), found[0])

    for pattern, change in ((_TABLE, table), (_TYPE, type_)):
        c_text = pattern.sub(change, c_text)
    later = {name: text for name, text in says.by_name.items() if name in says.classes - placed and "." not in name}
    body, has_run, names = _BODY.search(c_text), _BODY_HAS_RUN.search(c_text), _MODULE.search(c_text)
    if body and has_run and names and body.end() < names.start() < has_run.start():
        owners = {f'PyDict_GetItemString({names["names"]}, "{name}")': text for name, text in later.items()}
        calls = _calls({names["module"]: says.module} | owners)
        c_text = c_text[: has_run.start()] + calls + c_text[has_run.start() :]
        placed |= later.keys()
    return _INCLUDES.sub(lambda found: found[0] + _SET_DOC, c_text), placed


def _calls(owners: dict[str, str]) -> str:
    return "".join(
        f"    if (gantry_set_doc({owner}, {_in_c(text)}) < 0)\n        goto fail;\n"
        for owner, text in owners.items()
        if text
    )


def _behind(literal: str, text: str) -> str:
    """A C literal with the signature that mypyc wrote, if any, and the text behind it."""
    return _in_c(text) if literal == "NULL" else literal[:-1] + _in_c(text)[1:]


def _in_c(text: str) -> str:
    from mypyc.codegen.cstring import c_string_initializer

    return c_string_initializer(text.encode())


def _searched(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
