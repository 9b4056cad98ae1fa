"""Messages about arguments show no password and no key of an object store."""

from __future__ import annotations

import re

import click
import pytest

from binlake.cli.common.argument_passwords import without_passwords
from binlake.cli.main import PROGRAM
from binlake.printable import printable
from binlake_passwords import SECRET_NAME


@pytest.mark.parametrize(
    "argument",
    [
        "s3://bucket/logs?access_key=AKIA&secret_key=geheim",
        "s3://bucket/logs?session_token=geheim&region=x",
        "abfs://c@account/logs?account-key=geheim",
        "https://h/x?X-Amz-Signature=geheim",
        "secret_key=geheim",
        "--aws.secret.access.key=geheim",
        "--token=geheim",
        "mysql://ada:geheim@h/",
        "https://acct.blob.core.windows.net/c?sv=1&sig=geheim",
        "spark.hadoop.fs.azure.account.key.foo.dfs.core.windows.net=geheim",
        "--conf=fs.azure.account.key.foo=geheim",
        "--option=access_key=geheim",
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=geheim==",
        "a=b,secret_key=geheim,c=d",
        "api_key=geheim",
        "pwd=geheim",
        "fs.s3a.profile.secret.key=geheim",
        "fs.azure.sas.container.account.blob.core.windows.net=geheim",
        "--conf=fs.s3a.encryption.key=geheim",
        "fs.s3a.server-side-encryption.key=geheim",
        "access%5Fkey=geheim",
        "s3://bucket/logs?access%5Fkey=geheim",
        "secretprofile=geheim",
    ],
)
def test_a_message_shows_no_secret_of_an_argument(argument: str) -> None:
    message = f"no such option: {argument}; in full {argument!r}"
    assert "geheim" not in without_passwords(message, [argument])


@pytest.mark.parametrize(
    "argument",
    [
        "--keyring-password-file=/etc/keys",
        "where=id = 4711",
        "s3://bucket/logs?region=x",
        "mysql://ada@db1/?password-file=/etc/keys",
    ],
)
def test_other_arguments_stay(argument: str) -> None:
    assert without_passwords(f"not here: {argument}", [argument]) == f"not here: {argument}"


@pytest.mark.parametrize("shown", ["value {value!r} is wrong", "value {value} is wrong", "{value}"])
def test_a_message_that_shows_only_the_value(shown: str) -> None:
    message = shown.format(value="geheim")
    assert "geheim" not in without_passwords(message, ["--token=geheim"])


def test_a_short_value_does_not_garble_other_words() -> None:
    message = "binlake rows: Got unexpected extra argument (token=e)"
    shown = without_passwords(message, ["token=e"])
    assert shown == "binlake rows: Got unexpected extra argument (token=…)"


@pytest.mark.parametrize(
    "flag", ["--token", "--ssl-key-password", "--password", "-password", "--aws-secret-access-key", "--api-key", "--pwd"]
)  # fmt: skip
@pytest.mark.parametrize("value", ["geheim", "ge'heim \n;=,x", "-geheim"])
def test_the_value_of_an_option_in_its_own_argument(flag: str, value: str) -> None:
    message = f"cannot read {value!r}, {value} or {printable(value)}: no such file"
    shown = without_passwords(message, ["rows", flag, value, "binlog.000001"])
    assert "heim" not in shown
    assert shown.startswith("cannot read")


def test_the_attached_password_of_mysqlbinlog() -> None:
    assert without_passwords("no geheim", ["mysqlbinlog", "-pgeheim"]) == "no …"


@pytest.mark.parametrize(
    "arguments",
    [
        ["tail", "--password-file", "/etc/geheim"],
        ["tail", "--keyring-password-file", "/etc/geheim"],
        ["rows", "-page", "/etc/geheim"],
        ["rows", "--table", "/etc/geheim"],
    ],
)
def test_the_values_of_other_options_stay(arguments: list[str]) -> None:
    assert without_passwords("cannot read /etc/geheim", arguments) == "cannot read /etc/geheim"


def secret_options() -> list[tuple[str, ...]]:
    """The options of all commands whose value is a secret, by their names."""
    found: list[tuple[str, ...]] = []
    waiting: list[click.Command] = [PROGRAM]
    while waiting:
        command = waiting.pop()
        if isinstance(command, click.Group):
            context = click.Context(command)
            names = command.list_commands(context)
            waiting += [one for name in names if (one := command.get_command(context, name))]
        found += [
            (str(command.name), option)
            for parameter in command.params
            for option in parameter.opts
            if re.search(SECRET_NAME, option) and not option.endswith("-file")
        ]
    return found


def test_the_options_with_secrets_are_those_that_the_tests_know() -> None:
    """A new one must be given a test, or better the name of a file as its value."""
    assert secret_options() == [("mysqlbinlog", "--password")]
