import subprocess
import sys

from espalier.cli.kit.process_tuning import THRESHOLD


def threshold(program: str) -> int:
    program = f"import gc; {program}; print(gc.get_threshold()[0])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return int(result.stdout)


def test_short_commands_collect_garbage_less_often() -> None:
    of_python = threshold("pass")
    of_commands = threshold("import espalier.cli")
    of_what_lasts = threshold("from espalier.cli.kit import process_tuning; process_tuning.tune()")
    assert of_python < of_what_lasts == THRESHOLD < of_commands


def test_lasting_process_raises_its_open_files() -> None:
    program = (
        "import resource as r; from espalier.cli.kit import process_tuning; most = r.getrlimit(r.RLIMIT_NOFILE)[1]; "
        "r.setrlimit(r.RLIMIT_NOFILE, (64, most)); process_tuning.tune(); "
        "print(r.getrlimit(r.RLIMIT_NOFILE) == (most, most))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "True\n"
