"""Messages about arguments show no password and no key of an object store."""

from __future__ import annotations

import pytest

from binlake.cli.common.argument_passwords import without_passwords


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
    ],
)
def test_a_message_shows_no_secret_of_an_argument(argument: str) -> None:
    message = f"no such option: {argument}; in full {argument!r}"
    assert "geheim" not in without_passwords(message, [argument])


@pytest.mark.parametrize(
    "argument",
    ["--keyring-password-file=/etc/keys", "where=id = 4711", "s3://bucket/logs?region=x"],
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
