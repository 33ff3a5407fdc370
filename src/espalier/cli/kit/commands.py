"""Base of all commands: help, spelling of flags, messages of a wrong command line."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from espalier.api.text.violations import nearest_name

EXIT_CODES = """
\b
Exit codes: 0 done · 1 refused or failed (the reason is on standard error) ·
2 wrong command line, or a broken file of the local environment ·
3 no API server answered · 4 timed out · 130 interrupted
"""

COMPLETING = "_ESPALIER_COMPLETE"
"""Variable that completion scripts set, as click names it."""


class _Shown(click.Command):
    """Help that ends with the exit codes."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"epilog": EXIT_CODES, **settings})

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first sentence of the help, in full."""
        first = " ".join(inspect.cleandoc(self.help or "").partition("\n\n")[0].split())
        return f"{first.partition('. ')[0].rstrip('.')}."


class Command(_Shown):
    """A command. Its flags may also be written as programs in Go take them: `-o=json`, `--leader-elect=false`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Normalize flags to the spelling of click, and have it parse them."""
        try:
            return super().parse_args(ctx, list(self._as_click_writes(args)))
        except click.UsageError as error:
            error.ctx = error.ctx or ctx  # click omits it if a flag lacks its value
            raise

    def _as_click_writes(self, args: Sequence[str]) -> Iterator[str]:
        options = {name: option for option in self.params if isinstance(option, click.Option) for name in option.opts}
        end = args.index("--") if "--" in args else len(args)
        for arg in args[:end]:
            name, equals, value = arg.partition("=")
            option = options.get(name) if equals else None
            if option is not None and option.is_flag and value in ("true", "false"):
                yield from [name] if value == "true" else option.secondary_opts[:1]
            elif option is not None and not name.startswith("--"):
                yield from (name, value)
            else:
                yield arg
        yield from args[end:]


class Group(_Shown, click.Group):
    """A group of commands. Without a command, it shows its help."""

    command_class = Command


def sentence(error: click.UsageError) -> str:
    """Message for a wrong command line: the flag, what was found, what is allowed, and where to find help."""
    if error.ctx is None:
        return error.format_message()
    message = _wrong(error, error.ctx).rstrip(".")
    return f"{message}{'' if message.endswith('?') else ';'} see `{error.ctx.command_path} --help`"


def _wrong(error: click.UsageError, context: click.Context) -> str:
    match error:
        case click.NoSuchCommand() if isinstance(context.command, click.Group):
            known = context.command.list_commands(context)
            near = nearest_name(error.command_name, known) or _elsewhere(error.command_name, context)
            allowed = f"did you mean {near}?" if near else f"allowed: {', '.join(known)}"
            return f"unknown command {error.command_name!r}; {allowed}"
        case click.NoSuchOption() if context.command.name == "cluster" and error.option_name in OF_EKSCTL:
            return f"unknown flag {error.option_name}: {OF_EKSCTL[error.option_name]}"
        case click.NoSuchOption():
            suggestion = f"; did you mean {error.possibilities[0]}?" if error.possibilities else ""
            return f"unknown flag {error.option_name}{suggestion}"
        case click.BadOptionUsage():
            option = next(
                parameter for parameter in context.command.params if error.option_name in _spellings(parameter)
            )
            if isinstance(option, click.Option) and option.is_flag:
                return f"{error.option_name}: found a value, allowed is {' or '.join(_spellings(option))} without one"
            allowed = f"{option.make_metavar(context)}: {option.help}"
            return f"{error.option_name}: found no value, allowed is {allowed}"
        case click.MissingParameter() if error.param is not None:
            return f"{_name(error.param, context)} must be given: {error.param.help}"
        case click.BadParameter() if error.param is not None:
            return f"{_name(error.param, context)}: {error.message}"
        case _:
            message = error.format_message()
            usage = " ".join(context.get_usage().removeprefix("Usage: ").split())
            allowed = f"{message[:1].lower()}{message[1:].rstrip('.')}; allowed is `{usage}`"
            has_flag = any("--cluster" in each.opts and each.metavar == "NAME" for each in context.command.params)
            return f"{allowed}, with --cluster for a name" if has_flag else allowed


def _elsewhere(name: str, context: click.Context) -> str:
    """A command that does for objects with a group of commands of their own what others do as `get` and `describe`."""
    root = context.find_root()
    group = root.command.get_command(root, f"{name.removesuffix('s')}s") if isinstance(root.command, Group) else None
    verb = "list" if context.info_name == "get" else context.info_name or ""
    is_there = isinstance(group, Group) and verb in group.list_commands(context)
    return f"`{root.command_path} {group.name} {verb}`" if is_there and group is not None else ""


def _spellings(parameter: click.Parameter) -> list[str]:
    return [*parameter.opts, *parameter.secondary_opts]


def _name(parameter: click.Parameter, context: click.Context) -> str:
    return parameter.opts[0] if isinstance(parameter, click.Option) else parameter.make_metavar(context)


_TIMEOUT = "--timeout is for all of it"
_CHECKS = "spec.machineHealthCheck of the Cluster has it"
_HARDWARE = "`espalier generate hardware -z FILE | kubectl apply -f -` before it does that"
_KUBECONFIG = "--kubeconfig is that of the management cluster; the cluster's own is not needed"
_RELEASES = "`espalier releases import` brings Bundles of your own"

OF_EKSCTL: Mapping[str, str] = {
    "--bundles-override": _RELEASES,
    "--control-plane-wait-timeout": _TIMEOUT,
    "--external-etcd-wait-timeout": _TIMEOUT,
    "--force-cleanup": "nothing is left to clean up: the same command goes on, or `espalier delete cluster` ends it",
    "--hardware-csv": _HARDWARE,
    "--install-packages": "curated packages are no part of Espalier (docs/second-day.md#curated-packages)",
    "--no-timeouts": "--no-wait returns at once, and the manager goes on",
    "--node-startup-timeout": _CHECKS,
    "--per-machine-wait-timeout": _TIMEOUT,
    "--skip-ip-check": "no address is pinged: they are compared with those of other clusters",
    "--skip-validations": "no check can be skipped as a whole; annotations allow some (docs/reference/metadata.md)",
    "--tinkerbell-bootstrap-ip": "Tinkerbell runs there before a cluster is created (docs/tinkerbell.md)",
    "--unhealthy-machine-timeout": _CHECKS,
    "--w-config": _KUBECONFIG,
    "-v": "`espalier describe cluster NAME --watch` shows what is done",
    "-w": _KUBECONFIG,
    "-z": _HARDWARE,
}
"""Advice by flag of `create`, `upgrade` and `delete cluster` of `eksctl anywhere`."""
