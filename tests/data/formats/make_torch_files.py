"""Writes the files of torch.save in torch/, with torch 2.11 and safetensors 0.8: every state_dict in the
zip form (NAME.bin) and in the older form (NAME.legacy.bin), what torch itself reads back from it,
contiguous, as NAME.safetensors, and files that must be refused."""

import sys
from collections import OrderedDict
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "torch"


def dtypes():
    torch.manual_seed(1)
    tensors = OrderedDict()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        tensors[str(dtype)] = torch.randn(3, 5).to(dtype)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        tensors[str(dtype)] = torch.randint(-100, 100, (7,)).to(dtype)
    tensors["torch.uint8"] = torch.randint(0, 255, (2, 2, 3)).to(torch.uint8)
    tensors["torch.bool"] = torch.tensor([True, False, True])
    tensors["odd"] = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1.5])
    return tensors


def views():
    torch.manual_seed(2)
    big = torch.randn(6, 10, 4)
    tensors = OrderedDict(
        whole=big,
        transposed=big.transpose(0, 2),
        permuted=big.permute(1, 2, 0),
        sliced=big[1:5, ::3, 1:3],
        row=big[2],
        column=big[:, 4, 1],
        diagonal=torch.randn(5, 5).diagonal(),
        scalar=torch.tensor(2.5),
        scalar_view=big[3, 2, 1],
        empty=torch.empty(0, 7),
        empty_view=big[6:],
        ones=torch.randn(1, 3, 1).transpose(0, 2),
        bytes=torch.arange(60, dtype=torch.uint8).reshape(5, 12).t()[2:9:2],
        halves=torch.randn(9, 4).half().t(),
        doubles=torch.randn(4, 3).double().t(),
        parameter=torch.nn.Parameter(torch.randn(3, 4)),
        frozen=torch.nn.Parameter(torch.randn(4, 3).t(), requires_grad=False),
    )
    tensors["tied.a"] = torch.randn(4, 6)
    tensors["tied.b"] = tensors["tied.a"]
    tensors["tied.c"] = tensors["tied.a"].t()
    tensors["an odd \"name\" é\n"] = torch.arange(3)
    return tensors


def module():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    model.register_buffer("position_ids", torch.arange(6).expand((1, -1)))
    return model.state_dict()


def save_twins(name, tensors):
    torch.save(tensors, HERE / f"{name}.bin")
    torch.save(tensors, HERE / f"{name}.legacy.bin", _use_new_zipfile_serialization=False)
    read = torch.load(HERE / f"{name}.bin")
    save_file({key: value.detach().clone().contiguous() for key, value in read.items()},
              HERE / f"{name}.safetensors")


def save(name, value, **options):
    torch.save(value, HERE / name, **options)


def main():
    HERE.mkdir(exist_ok=True)
    save_twins("dtypes", dtypes())
    save_twins("views", views())
    save_twins("module", module())
    plain = torch.arange(3.0)
    for end, zipped in ((".bin", True), (".legacy.bin", False)):
        save("unsupported" + end, OrderedDict(
            f8=torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
            f8_view=torch.arange(6.0).reshape(2, 3).to(torch.float8_e5m2).t(),
            u16=torch.arange(3).to(torch.uint16), complex=torch.ones(2, dtype=torch.complex64),
            plain=plain), _use_new_zipfile_serialization=zipped)
        model = torch.nn.Linear(2, 2)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        save("training" + end, {"model": model.state_dict(), "optimizer": optimiser.state_dict(),
                                "iter_num": 3, "best": 1.5, "args": {"name": "x", "big": 2**70}},
             _use_new_zipfile_serialization=zipped)
        save("expanded" + end, {"x": torch.ones(3, 1).expand(3, 4)},
             _use_new_zipfile_serialization=zipped)
        save("sparse" + end, {"x": torch.eye(3).to_sparse()}, _use_new_zipfile_serialization=zipped)
        save("quantised" + end, {"x": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)},
             _use_new_zipfile_serialization=zipped)
        save("negated" + end, {"x": torch.ones(2, dtype=torch.complex64).conj().imag},
             _use_new_zipfile_serialization=zipped)
        save("object" + end, {"x": plain, "module": torch.nn.Linear(1, 1)},
             _use_new_zipfile_serialization=zipped)
        save("protocol4" + end, OrderedDict(x=plain), pickle_protocol=4,
             _use_new_zipfile_serialization=zipped)
        save("tensor" + end, plain, _use_new_zipfile_serialization=zipped)
        save("list" + end, [plain], _use_new_zipfile_serialization=zipped)
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), str(HERE / "torchscript.pt"))


main()
