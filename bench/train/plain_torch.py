"""The model of a configuration as an ordinary PyTorch program: nn.Module, autograd, fused AdamW.

One process, one thread. Trains until it is stopped; prints a JSON object for each step.
The shapes come from `evermoe config CONFIG --show`, so that both programs train the same model.
"""
import argparse
import itertools
import json
import subprocess
import time
import tomllib

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
        width = (m["heads"] + 2 * m["kv_heads"]) * m["head_dim"]
        self.qkv = nn.Linear(m["hidden"], width, bias=m["qkv_bias"] or m["linear_bias"])
        self.out = nn.Linear(m["heads"] * m["head_dim"], m["hidden"], bias=m["linear_bias"])

    def forward(self, x, cos, sin):
        m, (b, t, _) = self.m, x.shape
        q, k, v = self.qkv(x).view(b, t, -1, m["head_dim"]).split([m["heads"], m["kv_heads"], m["kv_heads"]], dim=2)

        def rotate(y):
            a, c = y.chunk(2, dim=-1)
            return torch.cat([a * cos - c * sin, c * cos + a * sin], dim=-1)

        q, k = rotate(q), rotate(k)
        times = m["heads"] // m["kv_heads"]
        k, v = k.repeat_interleave(times, dim=2), v.repeat_interleave(times, dim=2)
        y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


class SwiGlu(nn.Module):
    def __init__(self, hidden, width):
        super().__init__()
        self.up = nn.Linear(hidden, 2 * width, bias=False)
        self.down = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Mixture(nn.Module):
    """Routed experts in a loop, as in Hugging Face's Mixtral and Qwen2-MoE."""

    def __init__(self, m):
        super().__init__()
        self.m = m
        self.gate = nn.Linear(m["hidden"], m["experts"], bias=False)
        self.experts = nn.ModuleList(SwiGlu(m["hidden"], m["expert_hidden"]) for _ in range(m["experts"]))
        self.shared = SwiGlu(m["hidden"], m["shared_hidden"]) if m["shared_hidden"] else None
        self.shared_gate = nn.Linear(m["hidden"], 1, bias=False) if m["shared_gate"] else None

    def forward(self, x):
        m, shape = self.m, x.shape
        x = x.reshape(-1, shape[-1])
        logits = F.linear(x.float(), self.gate.weight.float())
        probabilities = logits.softmax(-1)
        weights, chosen = probabilities.topk(m["top_k"], dim=-1)
        if m["normalise_top_k"]:
            weights = weights / weights.sum(-1, keepdim=True)
        output = torch.zeros_like(x)
        mask = F.one_hot(chosen, m["experts"]).permute(2, 1, 0)
        for e, expert in enumerate(self.experts):
            choice, token = torch.where(mask[e])
            output.index_add_(0, token, (expert(x[token]) * weights[token, choice, None]).to(x.dtype))
        if self.shared is not None:
            shared = self.shared(x)
            output = output + (shared * self.shared_gate(x).sigmoid() if self.shared_gate else shared)
        share = F.one_hot(chosen, m["experts"]).sum((0, 1)) / chosen.numel()
        auxiliary = m["balance_loss"] * m["experts"] * (share * probabilities.mean(0)).sum()
        auxiliary = auxiliary + m["z_loss"] * logits.logsumexp(-1).square().mean()
        return output.view(shape), auxiliary


class Block(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(m["hidden"], m["norm_epsilon"]), nn.RMSNorm(m["hidden"], m["norm_epsilon"])
        self.attention, self.mixture = Attention(m), Mixture(m)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        y, auxiliary = self.mixture(self.norm2(x))
        return x + y, auxiliary


class Model(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.embedding = nn.Embedding(m["vocabulary"], m["hidden"])
        self.blocks = nn.ModuleList(Block(m) for _ in range(m["layers"]))
        self.norm = nn.RMSNorm(m["hidden"], m["norm_epsilon"])
        self.output = nn.Linear(m["hidden"], m["vocabulary"], bias=False)
        frequency = 1 / m["rope_theta"] ** (torch.arange(0, m["head_dim"], 2) / m["head_dim"])
        angle = torch.outer(torch.arange(m["sequence_length"]).float(), frequency).unsqueeze(1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens, targets):
        x, auxiliary = self.embedding(tokens), 0
        for block in self.blocks:
            x, more = block(x, self.cos.to(x.dtype), self.sin.to(x.dtype))
            auxiliary = auxiliary + more
        logits = self.output(self.norm(x)).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten()) + auxiliary


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--evermoe", default="build/evermoe")
    args = parser.parse_args()
    settings = [word for s in args.set for word in ("--set", s)]
    config = tomllib.loads(subprocess.check_output([args.evermoe, "config", args.config, "--show", *settings], text=True))
    m, train = config["model"], config["train"]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    bf16 = train["precision"] == "bf16"
    model = Model(m)
    masters = None
    if bf16:  # fp32 masters beside bf16 weights
        masters = [p.detach().clone().requires_grad_(True) for p in model.parameters()]
        model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(masters or model.parameters(), lr=train["learning_rate"], fused=True)
    shape = (train["micro_batch_size"], m["sequence_length"])
    for step in itertools.count(1):
        began = time.perf_counter()
        for _ in range(train["micro_batches"]):
            tokens = torch.randint(0, m["vocabulary"], shape)
            loss = model(tokens, tokens) / train["micro_batches"]
            loss.backward()
        if masters:
            for master, weight in zip(masters, model.parameters()):
                master.grad = weight.grad.float()
                weight.grad = None
        torch.nn.utils.clip_grad_norm_(masters or model.parameters(), train["clip_norm"])
        optimizer.step()
        if masters:
            for master, weight in zip(masters, model.parameters()):
                weight.data.copy_(master.detach())
        optimizer.zero_grad(set_to_none=True)
        print(json.dumps({"step": step, "seconds": time.perf_counter() - began}), flush=True)


if __name__ == "__main__":
    main()
