"""A model trained here and exported gives in transformers the logits and the loss it has here.

Trains real jobs with the binary in $EVERMOE, exports them, and compares three computations: the trainer's own
validation loss, a plain torch forward of the checkpoint (reference_model.py), and transformers.
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"  # whatever is missing must fail here, not be fetched

import torch
import torch.nn.functional as F
import transformers

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from reference_model import Checkpoint, ReferenceModel, validation_windows  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
EVERMOE = os.environ["EVERMOE"]
TOLERANCE = 1e-4
# Two experts whose probabilities are closer than this may change places by rounding alone, which moves logits by
# more than rounding does. Sequences with such a token are left out of the comparison of logits.
CLEAR_GAP = 1e-5


def evermoe(*arguments):
    done = subprocess.run([EVERMOE, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


class ExportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(2)
        torch.set_grad_enabled(False)

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def train(self, config, *settings):
        """Trains a few steps: enough to move every weight, biases and norms included. The weights begin large: with
        small ones a young model says nearly the same of every token, whatever its attention and experts do."""
        self.out = self.folder / "out"
        settings = ("train.steps=8", "train.warmup_steps=2", "model.init_std=0.2", *settings)
        evermoe("run", ROOT / "configs" / config, "--out", self.out, "--quiet",
                *(word for setting in settings for word in ("--set", setting)))
        self.checkpoint = Checkpoint(self.out / "checkpoints" / "latest")

    def load(self, *arguments, dtype=torch.float32):
        exported = self.folder / f"exported-{len(list(self.folder.iterdir()))}"
        evermoe("export", self.out, "--out", exported, *arguments)
        model, info = transformers.AutoModelForCausalLM.from_pretrained(
            exported, dtype=dtype, output_loading_info=True)
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            self.assertFalse(info[kind], kind)
        return model.eval()

    def trained_loss(self):
        lines = (json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines())
        return [line["validation_loss"] for line in lines if "validation_loss" in line][-1]

    def compare(self, model, architecture):
        self.assertEqual(type(model).__name__, architecture)
        inputs, targets = validation_windows(self.checkpoint.configuration)
        logits = model(inputs).logits
        reference = ReferenceModel(self.checkpoint)
        expected = reference.forward(inputs)
        clear = reference.smallest_gap > CLEAR_GAP
        self.assertGreaterEqual(int(clear.sum()), 4)
        difference = (logits - expected)[clear].abs().max().item()
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()
        trained = self.trained_loss()
        print(f"{self.id().split('.')[-1]}: {architecture}, logits up to {expected.abs().max():.3f} differ by "
              f"{difference:.2e} ({int(clear.sum())} of {len(inputs)} sequences), loss {loss:.6f}, trainer's differs "
              f"by {abs(loss - trained):.2e}", flush=True)
        self.assertLess(difference, TOLERANCE)
        self.assertLess(abs(loss - trained), TOLERANCE)
        self.assertGreater(expected.std(1).mean().item(), 0.2, "too alike for every token to show a difference")

    def test_qwen_moe(self):
        self.train("tiny.toml")
        self.compare(self.load(), "Qwen2MoeForCausalLM")

    def test_qwen_moe_with_dense_layers_and_without_biases(self):
        self.train("tiny.toml", "model.layers=5", "model.moe_every=2", "model.dense_first_layers=2",
                   "model.normalise_top_k=true", "model.qkv_bias=false", "model.head_dim=32", "model.rope_theta=500")
        self.compare(self.load(), "Qwen2MoeForCausalLM")

    def test_mixtral(self):
        self.train("mixtral-tiny.toml")
        self.compare(self.load(), "MixtralForCausalLM")
        # The same function as another class: softmax over all, the largest, divided by their sum.
        self.compare(self.load("--format", "ernie4.5-moe"), "Ernie4_5_MoeForCausalLM")

    def test_deepseek_moe(self):
        self.train("deepseek-moe-tiny.toml")
        self.compare(self.load(), "Ernie4_5_MoeForCausalLM")

    def test_deepseek_moe_with_grouped_queries_and_sparse_layers(self):
        self.train("deepseek-moe-tiny.toml", "model.kv_heads=2", "model.head_dim=32", "model.moe_every=2",
                   "model.normalise_top_k=true", "model.rope_theta=500")
        self.compare(self.load(), "Ernie4_5_MoeForCausalLM")

    def test_many_files_and_bf16(self):
        self.train("tiny.toml")
        one = self.load().state_dict()
        many = self.load("--max-file-size", "200kB")
        self.compare(many, "Qwen2MoeForCausalLM")
        rounded = self.load("--type", "bf16", dtype="auto")
        self.assertEqual(rounded.dtype, torch.bfloat16)
        for name, tensor in many.state_dict().items():
            self.assertTrue(torch.equal(tensor, one[name]), name)
            self.assertTrue(torch.equal(tensor.bfloat16(), rounded.state_dict()[name]), name)

    def compare_tokenizer(self, exported, *tokenizer):
        """The tokens that training reads, and those of AutoTokenizer, of texts that are hard to cut."""
        loaded = transformers.AutoTokenizer.from_pretrained(exported)
        draw = random.Random(1)
        hard = [*"  \n\n\t'abcXYZ.,é漢😀▁", "</s>", "<s>", "<unk>", "<0x0A>", "\r\n", "\u2028", "\u00a0", "e\u0301"]
        texts = [" ", "\n", "a", " a \n b  c\n", (ROOT / "data" / "wikitext2-valid.txt").read_text()[:50_000],
                 "".join(draw.choices(hard, k=20_000))]
        self.assertEqual(loaded("")["input_ids"], [])
        for text in texts:
            path = self.folder / "text.txt"
            path.write_bytes(text.encode())
            evermoe("tokenize", path, "--out", self.folder / "text.tokens", *tokenizer)
            data = (self.folder / "text.tokens").read_bytes()
            width = int.from_bytes(data[8:12], "little")
            ours = [int.from_bytes(data[i:i + width], "little") for i in range(64, len(data), width)]
            self.assertEqual(loaded(text)["input_ids"], ours, repr(text))
            if "▁" not in text:  # which SentencePiece takes for a space
                self.assertEqual(loaded.decode(ours), text)

    def export(self, *arguments):
        exported = self.folder / "exported"
        return exported, evermoe("export", self.out, "--out", exported, *arguments)

    def test_tokenizer_of_bytes(self):
        self.train("tiny.toml", "train.steps=1")
        self.compare_tokenizer(self.export()[0])

    def test_tokenizer_of_a_model(self):
        text, model = ROOT / "data" / "tinyshakespeare.txt", self.folder / "a.model"
        evermoe("tokenize", text, "--train-vocabulary", "512", "--model", model, "--out", self.folder / "a.tokens")
        # Of every format, because AutoTokenizer looks at the class of the model, too.
        for config in ("tiny.toml", "mixtral-tiny.toml", "deepseek-moe-tiny.toml"):
            with self.subTest(config=config):
                self.train(config, "train.steps=1", f"data.tokenizer={model}", "model.vocabulary=512")
                exported, _ = self.export()
                self.compare_tokenizer(exported, "--tokenizer", model)
                shutil.rmtree(exported)
                shutil.rmtree(self.out)
        self.train("tiny.toml", "train.steps=1", f"data.path={self.folder / 'a.tokens'}", "model.vocabulary=512")
        exported, said = self.export()
        self.assertIn("without a tokenizer: the job was trained on a token file", said)
        self.assertFalse((exported / "tokenizer.json").exists())
        shutil.rmtree(exported)
        exported, _ = self.export("--tokenizer", model)
        self.compare_tokenizer(exported, "--tokenizer", model)

    def test_generates(self):
        self.train("tiny.toml")
        tokens = self.load().generate(torch.tensor([list(b"First Citizen:")]), max_new_tokens=8, do_sample=False)
        self.assertEqual(tokens.shape, (1, 22))


if __name__ == "__main__":
    unittest.main(verbosity=2)
