"""The simulation: requests in many orders, each estimated, then learned from.

Runs under the Python of `tools/counts/install.py`; prints JSON.
"""

import argparse
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Final, NamedTuple

from chat_proxy.chat.message import Message
from chat_proxy.tokens.calibration.calibration import Calibration
from chat_proxy.tokens.counter import RequestCount, count_request
from chat_proxy.tokens.overheads import CountingRules, rules_for
from chat_proxy.tokens.tiktoken_counter import SaltedCounter, TiktokenCounter
from tools.counts.chats import EACH, KINDS, LEARNING, Request, Writer
from tools.counts.templates import TEMPLATES
from tools.counts.texts import POOLS, Pool
from tools.counts.vocabularies import SIX, VOCABULARIES, counting_in

_VARIANTS: Final = 150


class Sample(NamedTuple):
    """A request as the proxy counts it, and as the model does."""

    kind: str
    counted: RequestCount
    tokens: int


class Errors(NamedTuple):
    """Relative errors by kind: after twenty requests, and of the first request of a kind."""

    late: dict[str, list[float]]
    first: list[float]


def samples_of(vocabulary: str, requests: list[Request], model: str = "") -> list[Sample]:
    """Count the requests with the rules that the model's name implies, and as the model does."""
    name, template = TEMPLATES[vocabulary]
    rules = rules_for(model or name, "vllm")
    counter = counter_for(rules)
    count = counting_in(vocabulary)
    samples = []
    for kind, messages, tools in requests:
        prompt = template(messages, tools)
        counted = count_request([*map(Message, messages)], tools or None, counter, rules)
        samples.append(Sample(kind, counted, prompt.specials + sum(map(count, prompt.texts))))
    return samples


def counter_for(rules: CountingRules) -> SaltedCounter:
    """Return a loaded counter."""
    counter = TiktokenCounter(rules.encoding, single_digits=rules.single_digits, costs=rules.costs)
    counter.load()
    return SaltedCounter(counter, 0)


def orders(samples: list[Sample], number: int) -> Iterator[list[Sample]]:
    """Yield the samples mixed, and every second time one kind after the other."""
    by_kind = defaultdict(list)
    for sample in samples:
        by_kind[sample.kind].append(sample)
    for seed in range(number):
        chance = random.Random(seed)
        order = [one for kind in KINDS for one in chance.sample(by_kind[kind], EACH)]
        if seed % 2:
            kinds = chance.sample(KINDS, len(KINDS))
            order.sort(key=lambda sample, kinds=kinds: kinds.index(sample.kind))  # type: ignore[misc]
        else:
            chance.shuffle(order)
        yield order


def errors_in(samples: list[Sample], vocabulary: str, number: int) -> Errors:
    """Estimate and learn each request of each order, each order from the beginning."""
    late, first = defaultdict(list), []
    for order in orders(samples, number):
        calibration, seen = Calibration.fresh(vocabulary), set[str]()
        for at, (kind, count, tokens) in enumerate(order):
            error = calibration.estimate(count) / tokens - 1
            if kind not in seen and at:
                first.append(error)
            if at >= LEARNING and kind in seen:
                late[kind].append(error)
            seen.add(kind)
            calibration = calibration.learn(count, tokens).calibration
    return Errors(late, first)


def main() -> None:
    """Print the errors of each vocabulary as JSON."""
    parser = argparse.ArgumentParser(prog="python -m tools.counts")
    parser.add_argument("--vocabularies", nargs="+", choices=VOCABULARIES, default=SIX)
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--pool", choices=POOLS, default="held-out")
    parser.add_argument("--unnamed", action="store_true", help="the model's name tells nothing")
    chosen = parser.parse_args()
    found = {
        vocabulary: errors(vocabulary, chosen.pool, chosen.orders, unnamed=chosen.unnamed)._asdict()
        for vocabulary in chosen.vocabularies
    }
    json.dump(found, sys.stdout)


def errors(vocabulary: str, pool: Pool, number: int, *, unnamed: bool) -> Errors:
    """Return the errors with one vocabulary and the texts of one pool."""
    writer = Writer(pool, 7)
    requests = [writer.request(kind) for kind in KINDS for _ in range(_VARIANTS)]
    model = "local" if unnamed else ""
    rules = rules_for(model or TEMPLATES[vocabulary][0], "vllm")
    return errors_in(samples_of(vocabulary, requests, model), rules.prior, number)


if __name__ == "__main__":
    main()
