#!/usr/bin/env python3
"""Writes the files of this folder with the Python packages torch, safetensors and numpy."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent


def tensors():
    """One small tensor of every type; values 0, 1, 2, ... in row-major order."""
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
             "f64": torch.float64, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
             "i64": torch.int64, "u8": torch.uint8}
    made = {name: torch.arange(6).reshape(2, 3).to(dtype) for name, dtype in types.items()}
    made["bool"] = torch.tensor([True, False, True])
    made["scalar"] = torch.tensor(2.5)
    made["empty"] = torch.zeros(0, 4)
    made["an odd \"name\" é\n"] = torch.tensor([-1.0, float("nan"), float("inf")])
    return made


def main():
    save_file(tensors(), HERE / "all_types.safetensors", metadata={"format": "pt"})
    save_file({"scaled": torch.ones(4).to(torch.float8_e4m3fn), "plain": torch.arange(3.0)},
              HERE / "float8.safetensors")
    save_file({}, HERE / "none.safetensors")
    np.save(HERE / "float32_2x3.npy", np.arange(6, dtype=np.float32).reshape(2, 3) / 4)
    np.save(HERE / "float64_5.npy", np.arange(5, dtype=np.float64) / 3)
    np.save(HERE / "int64_scalar.npy", np.array(-7, dtype=np.int64))


if __name__ == "__main__":
    main()
