"""`espalier generate hardware` prints the objects of bare metal, or every wrong cell of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from espalier.api.text.violations import ManifestError
from espalier.cli.kit.failures import Usage
from espalier.cli.main import program

HEAD = "hostname,mac,ip_address,netmask,gateway,nameservers,labels,disk,bmc_ip,bmc_username,bmc_password"
LINE = (
    "worker-1,3c:ec:ef:45:67:89,192.0.2.11,255.255.255.0,192.0.2.1,192.0.2.2,type=worker,/dev/sda,192.0.2.111,root,{}"
)
CSV = f"{HEAD}\n{LINE.format('a-canary')}\n"
EXAMPLE = Path(__file__).parents[3] / "examples" / "hardware.csv"


def generate(*arguments: str, stdin: str = CSV) -> Result:
    return CliRunner().invoke(program, ["generate", "hardware", *arguments], input=stdin)


def test_objects_are_printed_as_yaml_and_as_json() -> None:
    as_yaml = generate("-z", "-")
    assert as_yaml.exit_code == 0
    objects = list(yaml.safe_load_all(as_yaml.stdout))
    assert [object_["kind"] for object_ in objects] == ["Secret", "Machine", "Hardware"], "each after what it refers to"
    assert json.loads(generate("-z", "-", "-o", "json").stdout)["items"] == objects


def test_a_file_gets_what_only_its_owner_may_read(tmp_path: Path) -> None:
    file = tmp_path / "hardware.yaml"
    file.touch(mode=0o644)
    done = generate("-z", "-", "-o", str(file))
    assert (done.exit_code, done.output) == (0, "")
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(list(yaml.safe_load_all(file.read_text()))) == 3


def test_wrong_cells_are_all_told_without_a_write(tmp_path: Path) -> None:
    file = tmp_path / "hardware.yaml"
    done = generate("-z", "-", "-o", str(file), stdin=CSV.replace("/dev/sda", "sda").replace("192.0.2.2", "dns"))
    assert isinstance(done.exception, ManifestError)
    assert [(problem.line, problem.violation.field) for problem in done.exception.problems] == [
        (2, "nameservers"),
        (2, "disk"),
    ]
    assert not file.exists()
    assert "a-canary" not in done.output + str(done.exception)


def test_columns_that_are_not_read_are_said() -> None:
    done = generate("-z", "-", stdin=CSV.replace("hostname,", "color,hostname,").replace("worker-1,", "red,worker-1,"))
    assert done.stderr == 'standard input: column "color" is ignored\n'


def test_another_format_is_refused() -> None:
    done = generate("-z", "-", "-o", "wide")
    assert isinstance(done.exception, Usage)
    assert "allowed are yaml, json, or a file" in str(done.exception)


@pytest.mark.parametrize("name", ["hardware.csv", "."])
def test_a_file_that_can_not_be_read_is_named(name: str, tmp_path: Path) -> None:
    done = generate("-z", str(tmp_path / name))
    assert isinstance(done.exception, OSError)
    assert done.exception.filename == str(tmp_path / name)


def test_the_example_is_an_inventory() -> None:
    done = generate("-z", str(EXAMPLE))
    kinds = [item["kind"] for item in yaml.safe_load_all(done.stdout)]
    assert (done.exit_code, done.stderr) == (0, "")
    assert kinds.count("Hardware") == kinds.count("Machine") == kinds.count("Secret") == 4
