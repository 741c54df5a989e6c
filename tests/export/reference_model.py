"""The model of a checkpoint in plain torch, read through Python's own safetensors.

Written from the words of src/model/model_shape.h and src/model/operator.h, not from the trainer's
code, so that both can be compared with what transformers computes.
"""
import json
import pathlib
import re
import tomllib

import torch
import torch.nn.functional as F
from safetensors import safe_open

FLAT_ALIGNMENT = 64


class Checkpoint:
    """Manifest, configuration and master weights of a checkpoint folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        self.configuration = tomllib.loads(self.manifest["position"]["configuration"])
        self.flat = self._read_masters()

    def _read_masters(self):
        flat, covered = {}, {}
        for path in sorted(self.folder.glob("rank-*.safetensors")):
            with safe_open(path, "pt") as shards:
                metadata = shards.metadata()
                for key in shards.keys():
                    name, part = key.rsplit("/", 1)
                    if part != "master":
                        continue
                    text = metadata[f"{name}/range"]
                    begin, end, size = map(int, re.fullmatch(r"begin=(\d+) end=(\d+) flat_size=(\d+)", text).groups())
                    tensor = shards.get_tensor(key)
                    assert tensor.shape == (end - begin,), (key, text)
                    flat.setdefault(name, torch.full((size,), float("nan"), dtype=tensor.dtype))[begin:end] = tensor
                    covered[name] = covered.get(name, 0) + end - begin
        for name, tensor in flat.items():
            assert covered[name] == tensor.numel() and not tensor.isnan().any(), name
        return flat

    def parameters(self, name, shapes):
        """Cuts an operator. `shapes`: parameter -> shape, matrices are decayed, vectors are not."""
        decayed = [item for item in shapes.items() if len(item[1]) > 1]
        others = [item for item in shapes.items() if len(item[1]) == 1]
        result, offset = {}, 0
        for parameter, shape in decayed + others:
            count = torch.Size(shape).numel()
            result[parameter] = self.flat[name][offset:offset + count].view(shape)
            offset += -(-count // FLAT_ALIGNMENT) * FLAT_ALIGNMENT
        assert offset == self.flat[name].numel(), name
        return result


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def feed_forward(x, up, down):
    gate, value = F.linear(x, up).chunk(2, -1)
    return F.linear(F.silu(gate) * value, down)


def rotary(x, theta):
    """x [batch, T, heads, d]: turns the pairs (i, i + d/2) by position * theta^(-2i/d)."""
    length, half = x.shape[1], x.shape[3] // 2
    angle = torch.outer(torch.arange(length, dtype=x.dtype), theta ** (-torch.arange(half, dtype=x.dtype) / half))
    cosine, sine = angle.cos()[:, None], angle.sin()[:, None]
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class ReferenceModel:
    """Models with RMSNorm, SwiGLU and rotary positions."""

    def __init__(self, checkpoint):
        self.shape = shape = checkpoint.configuration["model"]
        assert (shape["norm"], shape["activation"], shape["position"]) == ("rmsnorm", "swiglu", "rotary")
        self.checkpoint = checkpoint
        self.smallest_gap = None  # of forward(): per sequence, between the last chosen and the first other expert

    def is_moe(self, layer):
        return layer >= self.shape["dense_first_layers"] and (layer + 1) % self.shape["moe_every"] == 0

    def block_shapes(self, layer):
        s = self.shape
        hidden, qkv = s["hidden"], (s["heads"] + 2 * s["kv_heads"]) * s["head_dim"]
        shapes = {"norm1.weight": (hidden,), "norm2.weight": (hidden,), "attention.qkv.weight": (qkv, hidden)}
        if s["qkv_bias"]:
            shapes["attention.qkv.bias"] = (qkv,)
        shapes["attention.out.weight"] = (hidden, s["heads"] * s["head_dim"])
        prefix, width = ("shared.", s["shared_hidden"]) if self.is_moe(layer) else ("ffn.", s["dense_hidden"])
        if width:
            shapes[prefix + "up.weight"] = (2 * width, hidden)
            shapes[prefix + "down.weight"] = (hidden, width)
            if self.is_moe(layer) and s["shared_gate"]:
                shapes["shared_gate.weight"] = (1, hidden)
        return shapes

    def forward(self, tokens):
        """tokens [batch, T] -> logits [batch, T, vocabulary]"""
        s, read = self.shape, self.checkpoint.parameters
        self.smallest_gap = torch.full((tokens.shape[0],), float("inf"))
        x = read("embedding", {"token.weight": (s["vocabulary"], s["hidden"])})["token.weight"][tokens]
        for layer in range(s["layers"]):
            block = read(f"layer.{layer}.block", self.block_shapes(layer))
            x = x + self.attention(rms_norm(x, block["norm1.weight"], s["norm_epsilon"]), block)
            normal = rms_norm(x, block["norm2.weight"], s["norm_epsilon"])
            if not self.is_moe(layer):
                x = x + feed_forward(normal, block["ffn.up.weight"], block["ffn.down.weight"])
                continue
            if s["shared_hidden"]:
                shared = feed_forward(normal, block["shared.up.weight"], block["shared.down.weight"])
                if s["shared_gate"]:
                    shared = shared * F.linear(normal, block["shared_gate.weight"]).sigmoid()
                x = x + shared
            x = x + self.mixture(normal, layer)
        head = read("head", {"norm.weight": (s["hidden"],), "output.weight": (s["vocabulary"], s["hidden"])})
        return F.linear(rms_norm(x, head["norm.weight"], s["norm_epsilon"]), head["output.weight"])

    def attention(self, x, block):
        s = self.shape
        batch, length, _ = x.shape
        qkv = F.linear(x, block["attention.qkv.weight"], block.get("attention.qkv.bias"))
        q, k, v = qkv.view(batch, length, -1, s["head_dim"]).split([s["heads"], s["kv_heads"], s["kv_heads"]], 2)
        q, k = rotary(q, s["rope_theta"]), rotary(k, s["rope_theta"])
        k, v = (t.repeat_interleave(s["heads"] // s["kv_heads"], 2) for t in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / s["head_dim"] ** 0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        attended = torch.einsum("bhqk,bkhd->bqhd", weights, v).reshape(batch, length, -1)
        return F.linear(attended, block["attention.out.weight"])

    def mixture(self, x, layer):
        s = self.shape
        rows = x.reshape(-1, s["hidden"])
        gate = self.checkpoint.parameters(f"layer.{layer}.gate", {"weight": (s["experts"], s["hidden"])})
        logits = F.linear(rows, gate["weight"])
        ranked = logits.softmax(-1).sort(-1, descending=True)
        weights, chosen = ranked.values[:, :s["top_k"]], ranked.indices[:, :s["top_k"]]
        if s["top_k"] < s["experts"]:
            gap = weights[:, -1] - ranked.values[:, s["top_k"]]
            self.smallest_gap = torch.minimum(self.smallest_gap, gap.view(x.shape[0], -1).amin(1))
        if s["scoring"] == "top-k-then-softmax":
            weights = logits.gather(1, chosen).softmax(-1)
        elif s["normalise_top_k"]:
            weights = weights / weights.sum(-1, keepdim=True)
        result = torch.zeros_like(rows)
        for e in range(s["experts"]):
            expert = self.checkpoint.parameters(f"layer.{layer}.expert.{e}", {
                "up.weight": (2 * s["expert_hidden"], s["hidden"]), "down.weight": (s["hidden"], s["expert_hidden"])})
            token, slot = torch.where(chosen == e)
            output = feed_forward(rows[token], expert["up.weight"], expert["down.weight"])
            result.index_add_(0, token, output * weights[token, slot, None])
        return (result * s["routed_scale"]).view_as(x)


def validation_windows(configuration):
    """(inputs, targets) of the run's evaluation: windows spread over the held-out end of a text of bytes."""
    data, train = configuration["data"], configuration["train"]
    assert data["tokenizer"] == "bytes" and not data["validation_path"]
    tokens = torch.frombuffer(bytearray(pathlib.Path(data["path"]).read_bytes()), dtype=torch.uint8).long()
    held_out = tokens[tokens.numel() - int(tokens.numel() * data["validation_fraction"]):]
    length = configuration["model"]["sequence_length"]
    available = (held_out.numel() - 1) // length
    count = configuration["evaluate"]["micro_batches"] * train["micro_batch_size"]
    assert count < available
    windows = torch.stack([held_out[w * length:w * length + length + 1]
                           for w in (index * available // count for index in range(count))])
    return windows[:, :-1], windows[:, 1:]
