"""Residual units in a recording: the rules, on plain data. No model runs here."""

from dataclasses import dataclass

from reslab.examine.recording import Call, Recording

__all__ = ["Found", "common_path", "find_units"]

_SIMPLE = {"move", "slice", "pad", "pool", "dropout", "scale", "norm", "weight"}
_SKIPPED = {"move", "dropout"}
_GATES = {"sigmoid", "hardsigmoid", "softmax"}


@dataclass(frozen=True, kw_only=True)
class Found:
    """One unit, in indices of the recording's calls and values; operands count the merge's inputs.

    `owner` is the deepest module within which branch and merge ran: its path and number of call.
    """

    owner: tuple[str, int]
    meet: int
    merge: str
    fork: int
    shortcut: str
    order: str
    branch_operand: int
    shortcut_operand: int
    branch_calls: tuple[int, ...]
    shortcut_calls: tuple[int, ...]


@dataclass(frozen=True)
class _Chain:
    """The way back from a shortcut's operand to the fork: calls passed, latest first."""

    fork: int
    calls: tuple[int, ...]
    gated: bool = False


def find_units(recording: Recording) -> list[Found]:
    """Every residual unit, in order of the merges."""
    finder = _Finder(recording)
    units = []
    for index, call in enumerate(recording.calls):
        unit = None
        if finder.kind(call) == "add" and len(call.inputs) == 2:
            unit = finder.addition(index, call)
        elif finder.kind(call) == "concat" and len(call.inputs) > 1:
            unit = finder.concatenation(index, call)
        if unit is not None:
            finder.units[call.outputs[0]] = unit
            units.append(unit)
    return units


class _Finder:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.values, self.calls = recording.values, recording.calls
        self.kind = recording.kind
        self.consumers = recording.consumers()
        self.units: dict[int, Found] = {}
        # Sets of ancestors as the bits of one number a value, the value itself included.
        self.ancestors = [1 << i for i in range(len(self.values))]
        self.inputs = sum(1 << i for i, v in enumerate(self.values) if v.role == "input")
        for call in self.calls:
            if self.kind(call) == "create":
                continue
            before = 0
            for value in call.inputs:
                before |= self.ancestors[value]
            for value in call.outputs:
                self.ancestors[value] |= before

    def is_ancestor(self, first: int, second: int) -> bool:
        return bool(self.ancestors[second] >> first & 1)

    def is_signal(self, value: int) -> bool:
        """Whether a unit may begin here: something given or computed from it, in floating point."""
        known = bool(self.ancestors[value] & self.inputs)
        return known and self.values[value].dtype.is_floating_point

    def addition(self, index: int, call: Call) -> Found | None:
        first, second = call.inputs
        if not (self.is_signal(first) and self.is_signal(second)):
            return None
        ways = []
        for shortcut, (own, other) in enumerate(((first, second), (second, first))):
            chain = self.chain(own, other)
            if chain is not None and self.does_work(chain.fork, other, gated=chain.gated):
                weights = sum(self.kind(self.calls[i]) == "weight" for i in chain.calls)
                ways.append((weights, len(chain.calls), shortcut, chain))
        if not ways:
            return None
        _, _, shortcut, chain = min(ways, key=lambda way: way[:3])
        return self.found(index, "add", chain, branch=1 - shortcut, shortcut=shortcut)

    def concatenation(self, index: int, call: Call) -> Found | None:
        readers = [self.calls[i] for i in self.consumers[call.outputs[0]]]
        if readers and all(self.kind(r) == "slice" for r in readers):
            return None  # packed here to be unpacked there
        for branch in reversed(range(len(call.inputs))):
            value = call.inputs[branch]
            olds = [
                (position, old)
                for position, old in enumerate(call.inputs)
                if old != value and self.is_signal(old) and self.is_ancestor(old, value)
            ]
            if not olds:
                continue
            position, old = olds[-1]
            inner = self.units.get(value)
            if inner is not None and not self.is_ancestor(old, inner.fork):
                continue  # two streams of a reversible net side by side, merged by their additions
            fork = self._packed([o for _, o in olds], value) or old
            if self.does_work(fork, value):
                chain = _Chain(fork, ())
                return self.found(index, "concat", chain, branch=branch, shortcut=position)
        return None

    def _packed(self, olds: list[int], value: int) -> int | None:
        """The concatenation of exactly these values from which `value` was computed."""
        for call in reversed(self.calls):
            joins = self.kind(call) == "concat" and list(call.inputs) == olds
            if joins and self.is_ancestor(call.outputs[0], value):
                return call.outputs[0]
        return None

    def chain(self, value: int, other: int) -> _Chain | None:
        """The way from a shortcut's operand back to an ancestor of the other, if it is simple."""
        calls: list[int] = []
        gated, weights = False, 0
        while not (self.is_ancestor(value, other) and self.is_signal(value)):
            producer = self.values[value].producer
            if producer is None:
                return None
            call = self.calls[producer]
            kind = self.kind(call)
            weights += kind == "weight"
            if kind not in _SIMPLE or weights > 1 or self._drops_a_dimension(call, value):
                return None
            signals = [v for v in dict.fromkeys(call.inputs) if self.is_signal(v)]
            if len(signals) == 2 and kind == "scale":
                carried = self._carried(signals, other)
                if carried is None:
                    return None
                signals, gated = [carried], True
            if len(signals) != 1:
                return None
            calls.append(producer)
            value = signals[0]
        return _Chain(value, tuple(calls), gated)

    def _carried(self, signals: list[int], other: int) -> int | None:
        """Which of two factors is the carried signal, the other one being a gate."""
        for carried, gate in (signals, signals[::-1]):
            if self._is_gate(gate) and not self._is_gate(carried):
                return carried
        return None

    def _is_gate(self, value: int) -> bool:
        for _ in range(4):
            producer = self.values[value].producer
            if producer is None:
                return False
            call = self.calls[producer]
            if call.operation in _GATES:
                return True
            signals = [v for v in call.inputs if self.is_signal(v)]
            if self.kind(call) not in ("subtract", "scale", "move", "slice"):
                return False
            if len(signals) != 1:
                return False
            value = signals[0]
        return False

    def _drops_a_dimension(self, call: Call, value: int) -> bool:
        if self.kind(call) != "slice" or not call.inputs:
            return False
        return len(self.values[value].shape) < len(self.values[call.inputs[0]].shape)

    def does_work(self, fork: int, branch: int, *, gated: bool = False) -> bool:
        """Whether something is learnt or attended to between: not x + mean(x) and the like.

        The branch of a gated unit, such as a cell's update, may be an activation alone.
        """
        between = [self.calls[i] for i in self._between(fork, branch)]
        if gated and any(self.kind(call) == "activation" for call in between):
            return True
        return any(self._works(call) for call in between)

    def _works(self, call: Call) -> bool:
        if self.kind(call) in ("weight", "product", "softmax"):
            return True
        weights = any(self.values[v].role == "weight" for v in call.inputs)
        return weights and self.kind(call) == "other"

    def _between(self, fork: int, branch: int) -> list[int]:
        """Calls that `branch` needs and `fork` does not, run after the fork was computed."""
        producer = self.values[fork].producer
        start = -1 if producer is None else producer
        needed = self.ancestors[branch] & ~self.ancestors[fork]
        return [
            index
            for index in range(start + 1, (self.values[branch].producer or 0) + 1)
            if any(needed >> out & 1 for out in self.calls[index].outputs)
            and self.kind(self.calls[index]) != "create"
        ]

    def found(self, index: int, merge: str, chain: _Chain, *, branch: int, shortcut: int) -> Found:
        call = self.calls[index]
        passed = set(chain.calls)
        branch_calls = tuple(
            i for i in self._between(chain.fork, call.inputs[branch]) if i not in passed
        )
        # What reads no x, such as a mask or a memory's keys, may be computed anywhere.
        inner = [self.calls[i] for i in branch_calls if self._reads(self.calls[i], chain.fork)]
        owner = common_path([call, *inner])
        return Found(
            owner=owner,
            meet=index,
            merge=merge,
            fork=chain.fork,
            shortcut=self._shortcut_kind(chain),
            order=self._order(chain.fork, call.outputs[0], set(branch_calls), owner[0]),
            branch_operand=branch,
            shortcut_operand=shortcut,
            branch_calls=branch_calls,
            shortcut_calls=tuple(reversed(chain.calls)),
        )

    def _reads(self, call: Call, fork: int) -> bool:
        return any(self.is_ancestor(fork, value) for value in call.inputs)

    def _shortcut_kind(self, chain: _Chain) -> str:
        kinds = {self.kind(self.calls[i]) for i in chain.calls}
        if "weight" in kinds:
            return "projection"
        if chain.gated:
            return "gated"
        names = {"pad": "pad", "dropout": "dropout", "pool": "pool", "scale": "scaled"}
        return next((name for kind, name in names.items() if kind in kinds), "identity")

    def _order(self, fork: int, total: int, branch: set[int], owner: str) -> str:
        if self._all_normalise(self._readers(fork, branch)):
            return "pre"
        # A norm that belongs to what comes next, such as a down-sampling layer, is not the unit's.
        left = self._readers(total, None)
        if self._all_normalise(left) and all(self._within(call, owner) for call in left):
            return "post"
        # A norm and activation inside the unit that both sides share (He 2016, appendix).
        made = self._maker(fork)
        shared = made is not None and self._all_normalise([made]) and self._within(made, owner)
        return "pre" if shared else "none"

    def _maker(self, value: int) -> Call | None:
        """The operation that gave a value, looking through factors."""
        producer = self.values[value].producer
        while producer is not None and self.kind(self.calls[producer]) == "scale":
            producer = self.values[self.calls[producer].inputs[0]].producer
        return None if producer is None else self.calls[producer]

    def _all_normalise(self, calls: list[Call]) -> bool:
        return bool(calls) and all(self.kind(call) in ("norm", "activation") for call in calls)

    def _within(self, call: Call, owner: str) -> bool:
        return any(name == owner for name, _ in call.stack)

    def _readers(self, value: int, among: set[int] | None) -> list[Call]:
        """The operations that read a value, looking through those that only move it."""
        found: list[Call] = []
        for index in self.consumers[value]:
            if among is not None and index not in among:
                continue
            call = self.calls[index]
            if self.kind(call) in _SKIPPED and call.outputs:
                found += self._readers(call.outputs[0], among)
            else:
                found.append(call)
        return found


def common_path(calls: list[Call]) -> tuple[str, int]:
    """The deepest module within which all of these operations ran, and in which of its calls."""
    shared = ("", 0)
    for frames in zip(*(call.stack for call in calls), strict=False):
        if len(set(frames)) > 1:
            break
        shared = frames[0]
    return shared
