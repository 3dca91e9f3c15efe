"""Whose job a contract is."""

import pytest

from chat_proxy.compaction.contracts.sealed import PREFIX
from chat_proxy.proxy.contracts.holder import Holder, contract_holder, is_hosted
from chat_proxy.wires.chat_completions import CHAT_COMPLETIONS
from chat_proxy.wires.contracts.contract import Contract
from chat_proxy.wires.responses.wire import RESPONSES

ASKS = Contract(compacts=True)


def test_nobody_is_asked_without_a_contract() -> None:
    assert contract_holder("proxy", None, is_hosted=True, is_refused=False) == "none"


@pytest.mark.parametrize(
    ("setting", "hosted", "refused", "holder"),
    [
        ("auto", False, False, "proxy"),
        ("auto", True, False, "upstream"),
        ("auto", True, True, "proxy"),
        ("proxy", True, False, "proxy"),
        ("upstream", False, False, "upstream"),
        ("upstream", True, True, "upstream"),
    ],
)
def test_the_setting_and_the_host_decide(
    setting: str, hosted: bool, refused: bool, holder: Holder
) -> None:
    assert contract_holder(setting, ASKS, is_hosted=hosted, is_refused=refused) == holder


@pytest.mark.parametrize("setting", ["auto", "upstream"])
def test_a_prompt_that_the_proxy_sealed_is_its_own_job(setting: str) -> None:
    contract = Contract(compacts=True, sealed=f"{PREFIX}abc")

    assert contract_holder(setting, contract, is_hosted=True, is_refused=False) == "proxy"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1", True),
        ("https://API.OpenAI.com:443/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://mine.openai.azure.com/openai/v1", True),
        ("https://evilapi.openai.com.example.org/v1", False),
        ("https://notapi.openai.com/v1", False),
        ("http://127.0.0.1:8000/v1", False),
        ("not a url", False),
    ],
)
def test_hosted_apis_are_known_by_their_host(url: str, expected: bool) -> None:
    assert is_hosted(url, RESPONSES) is expected


def test_an_api_without_contracts_has_no_hosts() -> None:
    assert not is_hosted("https://api.openai.com/v1", CHAT_COMPLETIONS)
