# RUN: %python %s
"""The example engine generates what the model does on its own, whatever it
preempts, reuses and batches.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import io
import os
import sys

import numpy as np

import attn

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.dirname(attn.__file__)), "examples")
)
import engine
from llama import Config, Llama

rng = np.random.default_rng(3)
COUNT = 64
model = Llama(Config())
# Ten prompts of 1 to 150 tokens; those of four begin alike, and two are equal.
system = rng.integers(0, 256, 50).tolist()
lengths = [1, 2, 15, 16, 17, 40, 90, 150]
prompts = [rng.integers(0, 256, n).tolist() for n in lengths]
prompts[4:7] = [system + prompt for prompt in prompts[4:7]]
prompts += [prompts[6], system]
wanted = [model.generate(prompt, COUNT) for prompt in prompts]
# Otherwise all are one token, and equal for no good reason.
assert min(len(set(tokens)) for tokens in wanted) > 8


def generate_by_transformers(model):
    """The same tokens from the package transformers, where it is there; else None: of
    LlamaForCausalLM, or where the model has a window of MistralForCausalLM."""
    try:
        import torch
        import transformers
    except ImportError:
        return None
    c = model.config
    family = "Mistral" if c.window else "Llama"
    window = {"sliding_window": c.window} if c.window else {}
    llama = getattr(transformers, family + "ForCausalLM")(
        getattr(transformers, family + "Config")(
            **window,
            vocab_size=c.vocabulary,
            hidden_size=c.width,
            intermediate_size=c.hidden,
            num_hidden_layers=c.layers,
            num_attention_heads=c.heads,
            num_key_value_heads=c.key_heads,
            head_dim=c.head_dim,
            rms_norm_eps=c.epsilon,
            rope_theta=c.theta,
            tie_word_embeddings=False,
            attn_implementation="eager",
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=None,
        )
    )
    weights = {
        "model.embed_tokens.weight": model.embedding,
        "model.norm.weight": model.last,
        "lm_head.weight": model.head.T,
    }
    names = {"before": "input_layernorm", "between": "post_attention_layernorm"}
    names.update({x: "self_attn.%s_proj" % x for x in "qkvo"})
    names.update({x: "mlp.%s_proj" % x for x in ("gate", "up", "down")})
    for number, layer in enumerate(model.layers):
        for name, matrix in layer.items():
            weights["model.layers.%d.%s.weight" % (number, names[name])] = matrix.T
    state = {name: torch.from_numpy(x.copy()) for name, x in weights.items()}
    llama.load_state_dict(state, strict=True)
    llama.eval()
    return [
        llama.generate(
            torch.tensor([prompt]), max_new_tokens=COUNT, min_new_tokens=COUNT,
            do_sample=False
        )[0, len(prompt) :].tolist()
        for prompt in prompts
    ]


theirs = generate_by_transformers(model)
print("transformers: %s" % ("not there" if theirs is None else "the same tokens"))
assert theirs is None or theirs == wanted


def run(model=model, wanted=wanted, **options):
    served = engine.Engine(model, **options)
    requests = [served.submit(prompt, COUNT) for prompt in prompts]
    text = io.StringIO()
    served.run(engine.make_progress(text))
    for number, (request, tokens) in enumerate(zip(requests, wanted)):
        assert request.generated == tokens, (number, request.generated, tokens)
    for cache in served.caches:
        assert not cache.ids() and cache.free_pages == cache.k.shape[0]
    assert "step %4d  running   0  waiting   0" % served.steps in text.getvalue()
    print(
        "%s: %d steps, %d preemptions, %d tokens reused"
        % (options, served.steps, served.preempted, served.reused)
    )
    return served


# Room for all; then for two or three, in pages of several sizes.
plenty = run(pages=256)
assert plenty.preempted == 0 and plenty.reused > 0
for options in (
    {"pages": 20, "page": 16},
    {"pages": 60, "page": 5, "tokens": 17},
    {"pages": 215, "page": 1, "requests": 4},
):
    scarce = run(**options)
    assert scarce.preempted > 0 and scarce.reused > 0

# Keys that turn as they are read, in a cache that holds them as they were; and in one
# that rolls on behind a window.
run(pages=60, page=5, tokens=17, rotates_at_use=True)
rolling = Llama(Config(window=23))
expected = [rolling.generate(prompt, COUNT) for prompt in prompts]
assert expected != wanted
theirs = generate_by_transformers(rolling)
assert theirs is None or theirs == expected
for rotates_at_use in (False, True):
    run(rolling, expected, pages=60, page=5, tokens=17, rotates_at_use=rotates_at_use)

for rows, count in ((30, 3), (30, 0)):
    try:
        engine.Engine(model, pages=2).submit([1] * rows, count)
    except ValueError as error:
        text = "that fit the 32 rows of the cache, but got %d and %d" % (rows, count)
        assert text in str(error)
    else:
        raise AssertionError("a request that never ends was taken")
