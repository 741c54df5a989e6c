"""The model of a configuration as a careful PyTorch program: nn.Module, autograd, grouped products, fused AdamW.

One process, one thread, or one GPU. Trains until it is stopped; prints a JSON object for each step.
The shapes come from `evermoe config CONFIG --show`, so that both programs train the same model, on the same
windows of the same token file in the same order. compare_with_torch.py gives it the same allocator.
"""
import argparse
import itertools
import json
import struct
import subprocess
import time
import tomllib

import numpy
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


# Traced for torch.compile, this takes BF16 only (PyTorch 2.13).
grouped_mm = torch.compiler.disable(F.grouped_mm)


class Experts(nn.Module):
    """SwiGLU experts as two grouped products over rows that are sorted by expert."""

    def __init__(self, experts, hidden, width):
        super().__init__()
        each = [SwiGlu(hidden, width) for _ in range(experts)]  # for their initial values
        self.up = nn.Parameter(torch.stack([e.up.weight.detach().t() for e in each]))
        self.down = nn.Parameter(torch.stack([e.down.weight.detach().t() for e in each]))

    def forward(self, rows, ends):
        gate, up = grouped_mm(rows, self.up, offs=ends).chunk(2, dim=-1)
        return grouped_mm(F.silu(gate) * up, self.down, offs=ends)


class Mixture(nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
        self.gate = nn.Linear(m["hidden"], m["experts"], bias=False)
        self.experts = Experts(m["experts"], m["hidden"], m["expert_hidden"])
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
        slots = chosen.flatten().argsort(stable=True)  # by expert
        load = F.one_hot(chosen, m["experts"]).sum((0, 1))
        by_expert = self.experts(x[slots // m["top_k"]], load.cumsum(0).to(torch.int32))
        choices = by_expert[slots.argsort()].view(-1, m["top_k"], shape[-1])
        output = (choices * weights.unsqueeze(-1)).sum(1).to(x.dtype)
        if self.shared is not None:
            shared = self.shared(x)
            output = output + (shared * self.shared_gate(x).sigmoid() if self.shared_gate else shared)
        auxiliary = m["balance_loss"] * m["experts"] * (load / chosen.numel() * probabilities.mean(0)).sum()
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


class Windows:
    """What each micro-batch trains on (docs/formats/token-file.md, src/data/sample_order.cc)."""

    def __init__(self, path, length, held_out, seed):
        with open(path, "rb") as file:
            assert file.read(8) == b"EVERTOK1", path
            width, _, tokens = struct.unpack("<IIQ", file.read(16))
        all_tokens = numpy.memmap(path, {1: "u1", 2: "<u2", 4: "<u4"}[width], "r", offset=64, shape=(tokens,))
        self.tokens = all_tokens[:tokens - int(tokens * held_out)]
        self.length, self.seed, self.windows = length, seed, (len(self.tokens) - 1) // length

    @staticmethod
    def mix(x):
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    def permuted(self, index, epoch):
        half = max(1, ((self.windows - 1).bit_length() + 1) // 2)
        mask, key = 2**half - 1, self.mix(self.mix(self.seed) ^ epoch)
        while True:
            left, right = index >> half, index & mask
            for turn in range(6):
                left, right = right, left ^ self.mix(self.mix((key + turn) % 2**64) ^ right) & mask
            index = left << half | right
            if index < self.windows:
                return index

    def batch(self, first, count):
        """Inputs and targets of the samples first, first + 1, ..."""
        begins = [self.permuted(i % self.windows, i // self.windows) * self.length for i in range(first, first + count)]
        rows = torch.from_numpy(numpy.stack([self.tokens[b:b + self.length + 1] for b in begins]).astype("i8"))
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def optimizer_of(model, train, bf16):
    """With FP32 masters beside bf16 weights."""
    if not bf16:
        return torch.optim.AdamW(model.parameters(), lr=train["learning_rate"], fused=True), None
    masters = [p.detach().clone().requires_grad_(True) for p in model.parameters()]
    model.to(torch.bfloat16)
    return torch.optim.AdamW(masters, lr=train["learning_rate"], fused=True), masters


def update(model, optimizer, masters, clip_norm):
    for master, weight in zip(masters or [], model.parameters()):
        master.grad, weight.grad = weight.grad.float(), None
    torch.nn.utils.clip_grad_norm_(masters or model.parameters(), clip_norm)
    optimizer.step()
    for master, weight in zip(masters or [], model.parameters()):
        weight.data.copy_(master.detach())
    optimizer.zero_grad(set_to_none=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--evermoe", default="build/evermoe")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--data", help="a token file, instead of the configuration's")
    # Took 4 % of the processor time of an FP32 step away (2.07 -> 1.98 s for 4 micro-batches, PyTorch 2.13, g++ 12,
    # AVX2; medians of 6 and 3 steps, cores shared). bf16 was not measured.
    parser.add_argument("--compile", action="store_true", help="with torch.compile (all but the grouped products)")
    args = parser.parse_args()
    settings = [word for s in args.set for word in ("--set", s)]
    config = tomllib.loads(subprocess.check_output([args.evermoe, "config", args.config, "--show", *settings], text=True))
    m, train, data = config["model"], config["train"], config["data"]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    device = torch.device(args.device)
    model = Model(m).to(device)
    optimizer, masters = optimizer_of(model, train, train["precision"] == "bf16")
    run = torch.compile(model, dynamic=False) if args.compile else model
    windows = Windows(args.data or data["path"], m["sequence_length"], data["validation_fraction"], train["seed"])
    size = train["micro_batch_size"]
    for step in itertools.count(1):
        began, worked = time.perf_counter(), time.process_time()
        for micro_batch in range(train["micro_batches"]):
            tokens, targets = windows.batch(((step - 1) * train["micro_batches"] + micro_batch) * size, size)
            (run(tokens.to(device), targets.to(device)) / train["micro_batches"]).backward()
        update(model, optimizer, masters, train["clip_norm"])
        if device.type == "cuda":
            torch.cuda.synchronize()
        print(json.dumps({"step": step, "seconds": time.perf_counter() - began,
                          "processor_seconds": time.process_time() - worked}), flush=True)


if __name__ == "__main__":
    main()
