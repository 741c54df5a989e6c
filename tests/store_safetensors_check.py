"""What other programs see of a checkpoint, and what torch says about our casts.

  store_safetensors_check.py CHECKPOINT CASTS

CHECKPOINT is a published checkpoint; its files are read by Python's safetensors. CASTS holds the
little-endian arrays fp32.bin and what the store made of them, bf16.bin and fp16.bin.
"""
import json
import os
import sys

import numpy
import torch
from safetensors import safe_open

PARTS = ("master", "exp_avg", "exp_avg_sq")
DTYPES = {"fp32": torch.float32, "fp64": torch.float64}


def check_checkpoint(path):
    with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    assert manifest["format"] == "evermoe-checkpoint" and manifest["version"] == 1, manifest["format"]
    files = [safe_open(os.path.join(path, entry["name"]), framework="pt") for entry in manifest["files"]]
    seen = [set() for _ in files]
    for operator in manifest["operators"]:
        covered = 0
        for shard in operator["shards"]:
            opened = files[shard["file"]]
            expected = f"begin={shard['begin']} end={shard['end']} flat_size={operator['flat_size']}"
            assert opened.metadata()[operator["name"] + "/range"] == expected, expected
            assert shard["begin"] == covered, operator["name"]
            covered = shard["end"]
            for part in PARTS:
                name = f"{operator['name']}/{part}"
                tensor = opened.get_tensor(name)
                assert tensor.shape == (shard["end"] - shard["begin"],), name
                assert tensor.dtype == DTYPES[manifest["state_type"]], name
                assert torch.isfinite(tensor).all() and tensor.abs().max() > 0, name
                seen[shard["file"]].add(name)
        assert covered == operator["flat_size"], operator["name"]
    for opened, names in zip(files, seen):
        assert set(opened.keys()) == names
    return sum(len(names) for names in seen)


def check_casts(path):
    array = lambda name, dtype: torch.from_numpy(numpy.fromfile(os.path.join(path, name), dtype=dtype))
    floats = array("fp32.bin", numpy.float32)
    numbers = ~torch.isnan(floats)
    for name, dtype in (("bf16.bin", torch.bfloat16), ("fp16.bin", torch.float16)):
        ours = array(name, numpy.int16)
        theirs = floats.to(dtype)
        assert torch.equal(ours[numbers], theirs.view(torch.int16)[numbers]), name
        assert torch.equal(torch.isnan(ours.view(dtype)), ~numbers), name
    return len(floats)


def main():
    tensors = check_checkpoint(sys.argv[1])
    casts = check_casts(sys.argv[2])
    print(f"{tensors} tensors read, {casts} casts equal to torch's")


if __name__ == "__main__":
    main()
