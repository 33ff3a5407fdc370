import subprocess
import sys


def thresholds(program: str) -> str:
    program = f"import gc; {program}; print(gc.get_threshold())"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_a_short_command_looks_for_garbage_seldom_and_a_process_that_lasts_as_python_does() -> None:
    as_python_does = thresholds("pass")
    assert thresholds("import espalier.cli") != as_python_does
    assert thresholds("from espalier.cli import lasting; lasting.settle_in()") == as_python_does
