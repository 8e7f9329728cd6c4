"""The front door: analyse a program, and ask what is known of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import libcst as cst

from ptlint.facts import datasets, guards, models, roles
from ptlint.facts.arguments import Arguments
from ptlint.facts.events import Call, Construct, Ctx, Event, Forward, Iterate, Move, Place
from ptlint.facts.gradients import Gradients
from ptlint.facts.homes import Frame, Home, Trees
from ptlint.facts.loading import Loading
from ptlint.facts.loads import Loads
from ptlint.facts.models import Makeup
from ptlint.facts.precision import Precision
from ptlint.facts.reads import Reads
from ptlint.facts.run import Run
from ptlint.facts.samples import SampleLoop, sample_loops
from ptlint.facts.scaling import Scaling
from ptlint.facts.settings import Setting, settings
from ptlint.facts.timing import Timing
from ptlint.facts.values import (
    DEVICE,
    Batches,
    Device,
    Function,
    Instance,
    Loader,
    Module,
    Optimizer,
    Other,
    ProjectClass,
    Value,
    options,
    sources_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from ptlint.config import Config
    from ptlint.facts.evaluation import Evaluation
    from ptlint.facts.trained import UsedModels
    from ptlint.facts.untrained import Untrained
    from ptlint.outline.project import Program, Project
    from ptlint.outline.statements import Statement

E = TypeVar("E", bound=Event)

MANAGED_PACKAGES = frozenset("pytorch_lightning lightning accelerate fastai ignite deepspeed composer".split())
HF_TRAINERS = frozenset({"Trainer", "Seq2SeqTrainer", "SFTTrainer", "DPOTrainer", "GRPOTrainer", "PPOTrainer"})


def analyse(project: Project, program: Program, config: Config, trees: Trees | None = None) -> ProgramFacts:
    """Execute a program abstractly and return what rules may ask of it."""
    run = Run(project, program, config, trees if trees is not None else Trees())
    execute_program(run)
    run.trees.work += run.work
    return ProgramFacts(run)


def execute_program(run: Run) -> None:
    """The entry file from top to bottom, then what nothing called, each with unknown arguments."""
    entry = run.home(run.program.entry)
    entry.imported = True
    for statement in entry.file.outline.statements:
        run.execute_top(entry, statement)
    for path in run.program.files:
        home = run.imported(path)
        if not run.project.begins_with(path, run.program):
            continue
        aliases = frozenset(_aliases(home))
        alone = [s for s in home.file.outline.statements if s.kind in ("def", "class") and worth_a_visit(s, aliases)]
        if alone:
            others = _elsewhere(run, path)
            for statement in alone:
                _run_uncalled(run, home, statement.name or "", others)


LOOP_WORDS = frozenset({"no_grad", "inference_mode", "set_grad_enabled", "eval", "empty_cache", "synchronize"})
VISIT_WORDS = frozenset(
    "backward DataLoader GradScaler set_detect_anomaly detect_anomaly environ MultiheadAttention".split()
)
ITEM_WORDS = frozenset(
    "tensor as_tensor Tensor FloatTensor LongTensor load loadtxt read_csv read_json iloc readlines File cuda to "
    "Compose listdir glob from_pretrained".split()
)


def _aliases(home: Home) -> Iterator[str]:
    """The names under which a file imports what makes a visit worth while: by another name, or what is deprecated."""
    for item in home.file.outline.imports:
        if item.name and (item.module in LEGACY_AMP or (item.asname and item.name in VISIT_WORDS)):
            yield item.asname or item.name


LEGACY_AMP = frozenset({"torch.cuda.amp", "torch.cpu.amp"})


def worth_a_visit(statement: Statement, aliases: frozenset[str] = frozenset()) -> bool:
    """Whether a function or class that nothing calls may hold a fault of its own.

    `aliases`: names under which the file imports what makes a visit worth while.

    Modules whose own methods loop (a `generate`, an `_init_weights`) are left out: with no known caller nothing is
    hot in them, and they are most of a library's lines.
    """
    words = statement.words
    if words & VISIT_WORDS or words & aliases or ("amp" in words and "autocast" in words):
        return True
    if "__getitem__" in words:
        return bool(words & ITEM_WORDS)
    own_forward = statement.kind == "class" and "forward" in words
    return bool(not own_forward and statement.nodes & {"For", "While"} and words & LOOP_WORDS)


def _elsewhere(run: Run, path: Path) -> frozenset[str]:
    """The names used in other programs that hold a file: what they use is judged there, by its real callers."""
    own, *others = run.project.programs_of(path)
    if not others:
        return frozenset()
    key = tuple(program.entry for program in (own, *others))
    found = run.trees.elsewhere.get(key)
    if found is None:
        words: set[str] = set()
        files = set().union(*(program.files for program in others)).difference(own.files)
        for other in files:
            statements_there = run.project.file(other).outline.statements
            defined = {s.name for s in statements_there if s.kind in ("def", "class")}
            for statement in statements_there:
                if statement.kind != "import":
                    words |= statement.words - defined
        found = run.trees.elsewhere[key] = frozenset(words)
    return found


def _run_uncalled(run: Run, home: Home, name: str, others: frozenset[str]) -> None:
    value = run.global_value(home, name)
    for option in options(value):
        if isinstance(option, Function):
            if name not in others:
                _run_function(run, home, option)
        elif isinstance(option, ProjectClass):
            _run_class(run, home, option, others)


def _run_function(run: Run, home: Home, function: Function, receiver: Value | None = None) -> None:
    if id(function.head) in run.called or not isinstance(function.head, cst.FunctionDef):
        return
    node, tree = function.node, function.tree
    if tree is None:
        return
    ctx = run.root.child("module", ("alone", id(node)))
    ctx.home = home
    frame = Frame(home, tree, ctx, run.scope(node))
    if receiver is not None and "static" not in function.flags:
        function = function.bind(receiver)
    # The call has no place of its own: the definition stands for it.
    run.call(function, Arguments(open=True), Place(home.file, tree, node), frame)


def _run_class(run: Run, home: Home, cls: ProjectClass, others: frozenset[str]) -> None:
    """The methods of a class that nothing called, on an instance made with unknown arguments."""
    methods = [
        member
        for name, member in cls.members.items()
        if isinstance(member, Function)
        and id(member.head) not in run.called
        and not (name in others and cls.name in others)
    ]
    if not methods:
        return
    tree = methods[0].head_tree
    if tree is None:
        return
    receiver: Value | None = run.instance_of(cls)
    if receiver is None:
        ctx = run.root.child("module", ("alone", id(cls.node)))
        ctx.home = home
        frame = Frame(home, tree, ctx, run.scope(cls.node))
        receiver = run.call(cls, Arguments(open=True), Place(home.file, tree, cls.node), frame)
    for method in methods:
        _run_function(run, home, method, cls if "class" in method.flags else receiver)


class ProgramFacts:
    """What rules may ask of a program."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.config = run.config
        self.project = run.project
        self.program = run.program
        self.roles = roles.Roles(run.trace)

    # What happened

    @cached_property
    def _by_kind(self) -> dict[type[Event], list[Event]]:
        found: dict[type[Event], list[Event]] = {}
        for event in self.run.trace:
            found.setdefault(type(event), []).append(event)
        return found

    def events(self, kind: type[E]) -> list[E]:
        """Events of a kind, in the order of execution."""
        return self._by_kind.get(kind, [])  # type: ignore[return-value]

    def calls(self, *names: str) -> list[Call]:
        """Calls of library functions by canonical name (`torch.save`), or of methods (`torch.nn.Module.eval`)."""
        wanted = frozenset(names)
        return [event for event in self.events(Call) if event.name in wanted]

    def made(self, kind: type[Value]) -> list[Construct]:
        """The constructions of loaders, modules, optimizers, scalers, datasets, instances."""
        return [event for event in self.events(Construct) if isinstance(event.value, kind)]

    def calls_at(self, node: cst.CSTNode) -> list[Call]:
        """The calls of library functions that a node was in the execution, one for each path of calls to it."""
        return self._calls_by_node.get(id(node), [])

    @cached_property
    def _calls_by_node(self) -> dict[int, list[Call]]:
        found: dict[int, list[Call]] = {}
        for event in self.events(Call):
            found.setdefault(id(event.place.node), []).append(event)
        return found

    @cached_property
    def device_work(self) -> list[Event]:
        """What puts something on an accelerator."""
        return datasets.device_work(self)

    @cached_property
    def loads(self) -> Loads:
        """When the program loads which library."""
        return Loads(self)

    @cached_property
    def settings(self) -> list[Setting]:
        """The environment variables that it sets and that are known."""
        return settings(self)

    @cached_property
    def loading(self) -> Loading:
        """The loaders and what becomes of them."""
        return Loading(self)

    # Loops and hotness

    def hot(self, event: Event) -> Ctx | None:
        """The training or evaluation loop in which an event is hot; None when it is not."""
        return self.roles.hot_loop(event.ctx)

    @property
    def training_loops(self) -> list[Ctx]:
        """Training loops in the order of the source."""
        return sorted(self.roles.loops(roles.TRAINING), key=loop_key)

    @property
    def evaluation_loops(self) -> list[Ctx]:
        return sorted(self.roles.loops(roles.EVALUATION), key=loop_key)

    def iterations(self, source: Value) -> list[Iterate]:
        """Where something is gone over."""
        return [event for event in self.events(Iterate) if event.value is source]

    def gone_over(self, loop: Ctx) -> list[Value]:
        """The sources of batches that a loop goes over."""
        return [event.value for event in self.events(Iterate) if event.loop is loop]

    def moves(self, source: Value) -> list[Move]:
        """Where the items of a loader (or other source of batches) are moved to a device."""
        return [
            event
            for event in self.events(Move)
            if any(source is s for option in options(event.value) for s in sources_of(getattr(option, "batch", None)))
        ]

    def off_path(self, ctx: Ctx) -> bool:
        """Whether a context is a branch that the accelerated path does not take.

        What an option chooses among (`if args.optimizer == "sgd":`) is no matter of acceleration.
        """
        return any(up.kind == "guard" and up.rarity == guards.OFF_PATH and not guards.chooses(up) for up in ctx.up())

    @cached_property
    def sample_loops(self) -> list[SampleLoop]:
        """The loops over the samples of a batch that only compare, count or sum."""
        return list(sample_loops(self))

    @cached_property
    def timing(self) -> Timing:
        """What the program measures, and where its host waits for the device."""
        return Timing(self.run.trace)

    @cached_property
    def reads(self) -> Reads:
        """The reads of device tensors that hold up a loop, by what belongs together."""
        return Reads(self)

    # Evidence

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier, attribute and short string in the program's files."""
        found: set[str] = set()
        for path in self.program.files:
            for statement in self.project.file(path).outline.statements:
                found |= statement.words
        return frozenset(found)

    @cached_property
    def dotted(self) -> frozenset[str]:
        """Every dotted name in the program's files, as written."""
        found: set[str] = set()
        for path in self.program.files:
            for statement in self.project.file(path).outline.statements:
                found |= statement.dotted
        return frozenset(found)

    @cached_property
    def packages(self) -> frozenset[str]:
        """The top-level packages that the program imports."""
        return frozenset(
            item.module.partition(".")[0]
            for path in self.program.files
            for item in self.project.file(path).outline.imports
            if not item.level
        )

    @cached_property
    def accelerated(self) -> bool:
        """Whether the program may run on a GPU (CATALOGUE.md, Accelerated code)."""
        if self.config.device != "auto":
            return self.config.device == "cuda"
        if self.packages & {"accelerate", "pytorch_lightning", "lightning"} or self.uses_hf_trainer:
            return True
        if any(name.startswith(("torch.cuda.", "torch.accelerator.")) for name in self.dotted):
            return True
        if any(word == "cuda" or word.startswith("cuda:") for word in self.words):
            return True
        return any(
            isinstance(option, Device) and option.where == DEVICE
            for event in self.events(Move)
            for option in options(event.target)
        ) or any(isinstance(event.value, Module) and event.value.where == DEVICE for event in self.events(Construct))

    @cached_property
    def uses_hf_trainer(self) -> bool:
        return any(
            item.module.partition(".")[0] in ("transformers", "trl") and item.name in HF_TRAINERS
            for path in self.program.files
            for item in self.project.file(path).outline.imports
        )

    def managed(self, ctx: Ctx) -> bool:
        """Whether a framework owns what runs in a context: a Lightning hook, an Accelerate loop, an HF Trainer."""
        return self.hooked(ctx) or any(
            isinstance(event.receiver, Other) and event.receiver.kind == "accelerator" for event in self.events(Call)
        )

    def hooked(self, ctx: Ctx) -> bool:
        """Whether a framework calls what runs in a context: methods of a LightningModule, of an HF Trainer."""
        for up in ctx.up():
            function = up.function if up.kind == "frame" else None
            if function is not None and function.owner is not None:
                bases = function.owner.lib_bases
                if any(base.partition(".")[0] in MANAGED_PACKAGES for base in bases):
                    return True
                if any(base.rpartition(".")[2] in HF_TRAINERS for base in bases):
                    return True
        return False

    def alone(self, ctx: Ctx) -> bool:
        """Whether a context belongs to a function that nothing in the program calls."""
        return not any(up.kind == "module" and up.home is not None and up is up.home.ctx for up in ctx.up())

    @cached_property
    def gradients(self) -> Gradients:
        return Gradients(self.run)

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """The loops and functions that evaluate, and track gradients in vain."""
        from ptlint.facts.evaluation import evaluations

        return list(evaluations(self))

    @cached_property
    def used_models(self) -> UsedModels:
        """The models that loops train or evaluate."""
        from ptlint.facts.trained import UsedModels

        return UsedModels(self)

    @cached_property
    def _makeups(self) -> dict[int, Makeup]:
        return {}

    def makeup(self, module: Module) -> Makeup:
        """What a model is made of."""
        core = module.core
        found = self._makeups.get(id(core))
        if found is None:
            found = self._makeups[id(core)] = models.makeup(core)
        return found

    @cached_property
    def precision(self) -> Precision:
        """What the program does about precision, and the training loop that lacks it."""
        return Precision(self)

    @cached_property
    def scaling(self) -> Scaling:
        """What the program does with its GradScalers."""
        return Scaling(self)

    @cached_property
    def untrained(self) -> Untrained:
        """The modules that no optimizer holds, and what their gradients cost."""
        from ptlint.facts.untrained import Untrained

        return Untrained(self)

    @cached_property
    def optimizers(self) -> list[Optimizer]:
        return [event.value for event in self.events(Construct) if isinstance(event.value, Optimizer)]

    @cached_property
    def trained(self) -> list[Module]:
        """The modules that an optimizer holds."""
        found: list[Module] = []
        for optimizer in self.optimizers:
            found.extend(module for module in optimizer.modules if not any(module is known for known in found))
        return found

    @cached_property
    def loaders(self) -> list[tuple[Loader, Construct]]:
        """Every DataLoader with the event of its construction, each loader once."""
        return [(event.value, event) for event in self.made(Loader) if isinstance(event.value, Loader)]

    @cached_property
    def sources(self) -> list[Value]:
        """Everything that gave batches."""
        return [e.value for e in self.events(Iterate) if isinstance(e.value, (Loader, Batches, Instance))]

    def forwards(self, loop: Ctx) -> list[Forward]:
        """The outermost module calls in every iteration, or nearly, of a loop, in order."""
        found = [e for e in self.roles.under(loop) if isinstance(e, Forward) and e.outer]
        return sorted(found, key=lambda event: event.order)

    def is_test(self, place: Place) -> bool:
        """Whether a place stands in a test file; the engine drops findings there, facts may still need to know."""
        return self.project.is_test(place.path)

    def callers(self, ctx: Ctx) -> Iterator[Place]:
        """The places of the calls that led to a context, innermost first."""
        for up in ctx.up():
            if up.kind == "frame" and up.place is not None:
                yield up.place


def loop_key(loop: Ctx) -> tuple[str, int]:
    place = loop.place
    return (str(place.path), place.start) if place is not None else ("", 0)
