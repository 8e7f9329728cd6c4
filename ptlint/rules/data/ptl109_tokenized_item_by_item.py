"""PTL109 tokenized-item-by-item."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ptlint.facts import items
from ptlint.facts.events import Call, Place
from ptlint.facts.program import ProgramFacts
from ptlint.facts.scopes import target_names, walk
from ptlint.findings import Finding, Impact
from ptlint.rule import Rule

CALLS = frozenset({"tokenizer.__call__", "tokenizer.encode", "tokenizer.encode_plus"})
COMPILERS = frozenset({"torch.compile", "torch.jit.trace", "torch_xla.core.xla_model.xla_device"})


class TokenizedItemByItem(Rule):
    """
    ## What it finds
    A Hugging Face tokenizer that is called for one text at a time: in the `__getitem__` of a dataset, or in a
    comprehension over texts. Elsewhere `padding="max_length"` where nothing in the program needs fixed shapes.

    ## Why it is slow
    Fast tokenizers work on a list of texts in parallel, in native code; text by text the call's own Python is most of
    the time, in every epoch again. What is padded to the model's maximum is computed with, mostly for nothing.

    ## When it stays silent
    - The tokenizer is not known to be one: a parameter that nothing binds.
    - The call stands under a test, or its result is kept.
    - Padding: the program compiles, traces or runs on XLA, which want fixed shapes.

    ## Example
    ```python
    from transformers import AutoTokenizer


    class Texts(Dataset):
        def __init__(self, texts):
            self.texts = texts
            self.tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")

        def __getitem__(self, index):
            return self.tokenizer(self.texts[index], truncation=True)["input_ids"]
    ```

    Use instead:
    ```python
    from transformers import AutoTokenizer


    class Texts(Dataset):
        def __init__(self, texts):
            tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
            self.ids = tokenizer(texts, truncation=True)["input_ids"]

        def __getitem__(self, index):
            return self.ids[index]
    ```

    ## Fix safety
    No fix: whether to tokenize once before training or a batch at a time in `collate_fn` depends on the data.

    ## How it is measured
    Texts a second, one at a time and as a list.

    ## References
    - https://huggingface.co/docs/transformers/main_classes/tokenizer
    - https://huggingface.co/docs/transformers/pad_truncation
    """

    code = "PTL109"
    name = "tokenized-item-by-item"
    message = "the tokenizer is called for one text at a time"
    impact = Impact.MEDIUM
    preview = True
    roots = (("from_pretrained",),)

    def check(self, program: ProgramFacts) -> Iterator[Finding]:
        fixed_shapes = bool(program.calls(*COMPILERS)) or "torch_xla" in program.packages
        for call in program.events(Call):
            if call.name not in CALLS:
                continue
            if items.picked(program, call) or _over_texts(call.place):
                yield self.finding(
                    call.place,
                    advice="a list of texts: all of them once before training, or those of a batch in `collate_fn`",
                )
            elif not fixed_shapes and _pads_to_maximum(call.place):
                yield self.finding(
                    call.place,
                    message="every text is padded to the model's maximum, and nothing here needs that",
                    advice='`padding="longest"` for a batch, or `DataCollatorWithPadding` as `collate_fn`',
                )


def _over_texts(place: Place) -> bool:
    """Whether a comprehension calls the tokenizer with each of its items, of which there are not just a few."""
    for above in place.tree.ancestors(place.node):
        if isinstance(above, (cst.ListComp, cst.GeneratorExp)) and isinstance(place.node, cst.Call):
            loop = above.for_in
            own = set(target_names(loop.target))
            few = isinstance(loop.iter, (cst.List, cst.Tuple))
            return not few and any(
                isinstance(part, cst.Name) and part.value in own for arg in place.node.args for part in walk(arg.value)
            )
        if isinstance(above, (cst.FunctionDef, cst.Lambda)):
            return False
    return False


def _pads_to_maximum(place: Place) -> bool:
    if not isinstance(place.node, cst.Call):
        return False
    return any(
        arg.keyword is not None
        and arg.keyword.value == "padding"
        and isinstance(arg.value, cst.SimpleString)
        and arg.value.evaluated_value == "max_length"
        for arg in place.node.args
    )
