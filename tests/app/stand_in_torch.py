"""As much of PyTorch as the hook meets, for machines without it: tensors that give themselves away as PyTorch's do
(none with a gradient, on a GPU or of bfloat16 becomes an array), and an attention layer that calls
scaled_dot_product_attention unless it is asked for its weights, as torch.nn.MultiheadAttention."""

import sys
import types

import numpy


class Tensor:
    def __init__(self, values, dtype="float32", device="cpu", requires_grad=False):
        self.values, self.kind, self.device, self.requires_grad = numpy.asarray(values), dtype, device, requires_grad

    dtype = property(lambda self: f"torch.{self.kind}")
    shape = property(lambda self: self.values.shape)
    ndim = property(lambda self: self.values.ndim)

    def _with(self, **changes):
        now = {"values": self.values, "dtype": self.kind, "device": self.device, "requires_grad": self.requires_grad}
        return Tensor(**{**now, **changes})

    def detach(self):
        return self._with(requires_grad=False)

    def cpu(self):
        return self._with(device="cpu")

    def cuda(self):
        return self._with(device="cuda:0")

    def float(self):
        return self._with(values=self.values.astype(numpy.float32), dtype="float32")

    def bfloat16(self):
        bits = numpy.ascontiguousarray(self.values, numpy.float32).view(numpy.uint32)
        bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000  # to the nearest, ties to even
        return self._with(values=bits.astype(numpy.uint32).view(numpy.float32), dtype="bfloat16")

    def numpy(self):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.device != "cpu":
            raise TypeError(f"can't convert {self.device} device type tensor to numpy.")
        if self.kind == "bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values

    def __array__(self, *_, **__):
        return self.numpy()

    def tolist(self):
        return self.values.tolist()

    def __getitem__(self, where):
        return self._with(values=self.values[where])


def _weights(query, key, mask, scale):
    scores = query.astype(float) @ key.astype(float).swapaxes(-1, -2) * scale + mask
    scores = numpy.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):
    assert dropout_p == 0 and not is_causal
    weights = _weights(query.values, key.values, attn_mask.values, scale or query.shape[-1] ** -0.5)
    return query._with(values=(weights @ value.values).astype(query.values.dtype))


class MultiheadAttention:
    def __init__(self, width, heads, batch_first):
        assert batch_first
        self.heads, self.maps = heads, numpy.random.default_rng(4).normal(size=(3, width, width)) * width ** -0.5

    def __call__(self, x, key, value, attn_mask, need_weights=True, average_attn_weights=True):
        assert key is x and value is x and not (need_weights and average_attn_weights)
        batch, length, width = x.shape
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (x._with(values=(x.values @ part).reshape(split).swapaxes(1, 2).astype(numpy.float32),
                           requires_grad=True) for part in self.maps)
        if not need_weights:
            # By the module's name at the time of the call, as PyTorch's own layer.
            return sys.modules["torch.nn.functional"].scaled_dot_product_attention(q, k, v, attn_mask=attn_mask), None
        return None, q._with(values=_weights(q.values, k.values, attn_mask.values, split[-1] ** -0.5))


def _causal_mask(length):
    seen = numpy.tril(numpy.ones((length, length), bool))
    return Tensor(numpy.where(seen, 0, -numpy.inf).astype(numpy.float32))


def modules():
    """The module and those inside it, by their names."""
    torch, nn, functional = (types.ModuleType(name) for name in ("torch", "torch.nn", "torch.nn.functional"))
    random = numpy.random.default_rng(5)
    torch.nn, nn.functional = nn, functional
    torch.randn = lambda *shape: Tensor(random.normal(size=shape).astype(numpy.float32))
    nn.MultiheadAttention = MultiheadAttention
    nn.Transformer = types.SimpleNamespace(generate_square_subsequent_mask=_causal_mask)
    functional.scaled_dot_product_attention = scaled_dot_product_attention
    return {"torch": torch, "torch.nn": nn, "torch.nn.functional": functional}
