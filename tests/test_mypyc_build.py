"""What is compiled is chosen by rules, so that modules may move."""

from __future__ import annotations

import importlib.util
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools" / "mypyc_build"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses looks there
    spec.loader.exec_module(module)
    return module


chosen = load("chosen")
backend = load("backend")


def reasons(source: Path, files: dict[str, str]) -> dict[str, str | None]:
    for name, text in files.items():
        path = source / "gantrymq" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {module.name.removeprefix("gantrymq."): module.reason for module in chosen.modules(source)}


def test_a_struct_is_found_however_it_is_written_and_wherever_its_base_lies(tmp_path: Path) -> None:
    found = reasons(
        tmp_path,
        {
            "store/plain.py": "class A: ...",
            "store/direct.py": "import msgspec\nclass A(msgspec.Struct, frozen=True): ...",
            "store/renamed.py": "from msgspec import Struct as S\nclass A(S): ...",
            "admin/base.py": "from msgspec import Struct\nclass Base(Struct): ...",
            "broker/deep/inherited.py": "from gantrymq.admin.base import Base\nclass A(Base): ...",
            "broker/generic.py": "from gantrymq.admin.base import Base\nclass A(Base[int]): ...",
            "broker/handed_on.py": "from gantrymq.admin.base import Base as Base\nclass A: ...",
            "broker/second_hand.py": "from gantrymq.broker.handed_on import Base\nclass A(Base): ...",
            "broker/user.py": "from gantrymq.admin.base import Base\nB = Base()",
            "cli/tool.py": "",
        },
    )
    assert {name for name, reason in found.items() if reason is None} == {
        "store.plain", "broker.handed_on", "broker.user",
    }  # fmt: skip
    assert "admin.base" not in found and "cli.tool" not in found


def test_an_empty_package_is_not_compiled(tmp_path: Path) -> None:
    found = reasons(tmp_path, {"store/__init__.py": '"""Text."""', "broker/__init__.py": "X = 1"})
    assert found["store"] is not None and found["broker"] is None


def test_what_users_import_and_its_bases_stay_python(tmp_path: Path) -> None:
    found = reasons(
        tmp_path,
        {
            "__init__.py": "from gantrymq.client.producer import Producer as Producer",
            "client/producer.py": "from gantrymq.client.sending.base import Base\nclass Producer(Base): ...",
            "client/sending/base.py": "from gantrymq.client.sending.root import Root\nclass Base(Root): ...",
            "client/sending/root.py": "class Root: ...",
            "client/sending/inner.py": "from gantrymq.client.sending.root import Root\nr = Root()",
            "simulation/broken.py": "from gantrymq.client.sending.inner import Inner\nclass Broken(Inner): ...",
        },
    )
    assert found == {
        "client.sending.base": found["client.sending.base"],
        "client.sending.root": found["client.sending.root"],
        "client.sending.inner": None,
    }
    assert "Producer is Python and inherits from it" in (found["client.sending.base"] or "")
    assert "Base is Python and inherits from it" in (found["client.sending.root"] or "")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import sqlalchemy", "it imports sqlalchemy"),
        ("import weakref\nclass A:\n def __init__(self): self.r = weakref.ref(self)", "weak reference"),
        ("import enum\nclass A(enum.Enum):\n def __new__(cls): ...", "__new__"),
        ("@dataclass(frozen=True)\nclass A:\n b: int\n def __post_init__(self): ...", "__post_init__"),
        ("@dataclass(frozen=True)\nclass A:\n b: int", None),
    ],
)
def test_what_mypyc_cannot_do_for_a_client_stays_python(tmp_path: Path, text: str, reason: str | None) -> None:
    found = reasons(tmp_path, {"client/sending/one.py": text, "sql/rules/one.py": text})
    for name in ("client.sending.one", "sql.rules.one"):
        assert (found[name] is None) if reason is None else (reason in (found[name] or "")), found[name]


@pytest.mark.parametrize(
    ("text", "is_compiled"),
    [
        ("async def f():\n try: await g()\n except ValueError: await h()", False),
        ("async def f():\n try: await g()\n finally: await h()", False),
        ("async def f():\n async with g(): pass", False),
        ("async def f():\n try: await g()\n except ValueError: h()\n await h()", True),
    ],
)
def test_what_waits_in_a_handler_stays_python_in_brokers_and_clients(
    tmp_path: Path, text: str, is_compiled: bool
) -> None:
    """The error of one election became the error of each connection that a compiled broker opened behind it."""
    names = ("broker", "client.sending", "remoting", "sql.rules", "store")
    found = reasons(tmp_path, {f"{name.replace('.', '/')}/one.py": text for name in names})
    for name in names:
        reason = found[f"{name}.one"]
        assert (reason is None) if is_compiled else ("it waits in an except" in (reason or "")), (name, reason)


def test_no_attribute_becomes_a_keyword_of_c() -> None:
    """mypyc puts a _ before the name of an attribute."""
    keywords = {"_thread", "_inline", "_asm", "_typeof", "_volatile", "_const", "_signed", "_attribute", "_label"}
    for package in chosen.COMPILED_PACKAGES:
        for path in (chosen.SOURCE / "gantrymq" / package.replace(".", "/")).rglob("*.py"):
            found = {
                name for name in keywords if f"self.{name} " in path.read_text() or f"self.{name}:" in path.read_text()
            }
            assert not found, f"{path}: the C compiler stops at _{min(found)}; call the attribute otherwise"


@pytest.mark.slow
def test_the_time_of_a_broker_is_spent_in_what_is_compiled_and_every_pattern_leaves_something_out() -> None:
    modules = list(chosen.modules())  # this parses all sources
    names = [module.name for module in modules if module.reason is None]
    assert len(names) > 100
    assert {name.split(".")[1] for name in names} >= {
        "broker",
        "client",
        "protocol",
        "remoting",
        "sql",
        "store",
        "transactions",
    }
    paths = [module.path.relative_to(chosen.SOURCE / "gantrymq").as_posix() for module in modules]
    assert not [pattern for pattern in chosen.PURE_PATTERNS if not any(fnmatch(path, pattern) for path in paths)]


@pytest.mark.parametrize("given, wanted", [(None, False), ("", False), ("0", False), ("1", True)])
def test_mypy_is_needed_only_where_a_compiled_build_is_wanted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None, wanted: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    if given is None:
        monkeypatch.delenv(backend.SWITCH, raising=False)
    else:
        monkeypatch.setenv(backend.SWITCH, given)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n')
    assert any(text.startswith("mypy") for text in backend.get_requires_for_build_wheel()) is wanted


def test_an_editable_installation_is_never_compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(backend.SWITCH, "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["setup.py"])
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n')
    (tmp_path / "wheels").mkdir()
    assert backend.build_editable("wheels").endswith("py3-none-any.whl")
    assert not backend.wants_compiled()
