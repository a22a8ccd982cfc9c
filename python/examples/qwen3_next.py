"""Qwen3-Next of transformers, whose linear attention attn.fla computes.

usage: qwen3_next.py

Three of four layers of Qwen3-Next are gated delta rules. transformers calls the
functions of flash-linear-attention for them where these are installed, and loops of
torch elsewhere; with attn.fla in their place the layers run on the CPU as compiled
code. The example builds a small model with random weights, and compares its logits
with those of transformers' own loops, for a prompt and for 64 tokens after it.

Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

import contextlib
import sys

try:
    import torch
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM
    from transformers.models.qwen3_next import modeling_qwen3_next as modeling
except ImportError as error:
    print("nothing to run: %s" % error)
    sys.exit()

from attn import fla

calls = {"chunk": 0, "recurrent": 0}


def chunk(query, key, value, g, beta, chunk_size=64, cu_seqlens=None, **options):
    calls["chunk"] += 1
    # The cache may hold states of another type.
    state = options.pop("initial_state", None)
    state = state if state is None else state.float()
    known = ("output_final_state", "use_qk_l2norm_in_kernel")
    return fla.chunk_gated_delta_rule(
        query,
        key,
        value,
        g,
        beta,
        initial_state=state,
        cu_seqlens=cu_seqlens,
        **{name: options[name] for name in known if name in options}
    )


def recurrent(*arguments, **options):
    calls["recurrent"] += 1
    calls["chunk"] -= 1
    return chunk(*arguments, **options)


@contextlib.contextmanager
def attn_in_transformers():
    """Within it, models of Qwen3-Next run their gated delta rules by attn."""
    names = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule")
    own = [getattr(modeling, name) for name in names]
    for name, ours in zip(names, (chunk, recurrent)):
        setattr(modeling, name, ours)
    try:
        yield
    finally:
        for name, theirs in zip(names, own):
            setattr(modeling, name, theirs)


def small_model(dtype):
    torch.manual_seed(0)
    config = Qwen3NextConfig(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=32,
        linear_value_head_dim=32,
        moe_intermediate_size=64,
        shared_expert_intermediate_size=64,
        num_experts=4,
        num_experts_per_tok=2,
    )
    return Qwen3NextForCausalLM(config).to(dtype).eval()


def run(model, tokens, prompt):
    """Logits of a prompt, and of the tokens behind it one by one."""
    with torch.no_grad():
        result = model(tokens[:, :prompt], use_cache=True)
        logits = [result.logits]
        for t in range(prompt, tokens.shape[1]):
            past = result.past_key_values
            result = model(tokens[:, t : t + 1], past_key_values=past, use_cache=True)
            logits.append(result.logits)
    return torch.cat(logits, 1).float()


def main():
    prompt, steps = 150, 64
    for dtype, bound in ((torch.float32, 1e-4), (torch.bfloat16, 5e-2)):
        model = small_model(dtype)
        tokens = torch.randint(0, 512, (2, prompt + steps))
        want = run(model, tokens, prompt)
        calls.update(chunk=0, recurrent=0)
        with attn_in_transformers():
            got = run(model, tokens, prompt)
        # Three layers: a prompt each, and all steps.
        if (calls["chunk"], calls["recurrent"]) != (3, 3 * steps):
            sys.exit("expected 3 and %d calls, but got %s" % (3 * steps, calls))
        error = (abs(got - want).max() / abs(want).max()).item()
        words = "%s: logits of %d tokens and of %d steps differ by %.1e of the largest"
        print(words % (str(dtype).split(".")[1], prompt, steps, error))
        if not error <= bound:
            sys.exit("expected at most %g" % bound)


if __name__ == "__main__":
    main()
