"""What a live model attends to, as a file that `phasescope import` opens."""

import contextlib
import json
import math
import struct
import sys
import types
import warnings

import numpy

_HIDDEN = -1e4  # what masks of all floating types add to a score that nobody sees is below this


def write_safetensors(path, tensors):
    """Arrays by name; float32, float64 and float16 as they are, all else as float32."""
    names = {"float64": "F64", "float32": "F32", "float16": "F16"}
    header, parts, place = {}, [], 0
    for name, value in tensors.items():
        value = numpy.asarray(value)
        value = numpy.ascontiguousarray(value if value.dtype.name in names else value.astype(numpy.float32))
        header[name] = {"dtype": names[value.dtype.name], "shape": list(value.shape),
                        "data_offsets": [place, place + value.nbytes]}
        place += value.nbytes
        parts.append(value)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in parts:
            file.write(value.tobytes())


def write_maps(path, maps):
    """Attention maps, one a layer, (heads, N, N) or (1, heads, N, N): what many libraries return as
    `attentions`. Arrays, or tensors of PyTorch."""
    write_safetensors(path, {f"attn.{n}": _one_text(_array(one), "maps") for n, one in enumerate(maps)})


def write_qk(path, queries, keys):
    """Queries and keys as they meet in the scores (rotated, where the model rotates them), one of each
    a layer, (heads, N, d) or (1, heads, N, d)."""
    if len(queries) != len(keys):
        raise ValueError(f"{len(queries)} layers of queries and {len(keys)} of keys do not go together")
    tensors = {}
    for n, (q, k) in enumerate(zip(queries, keys)):
        tensors[f"q.{n}"], tensors[f"k.{n}"] = _one_text(_array(q), "queries"), _one_text(_array(k), "keys")
    write_safetensors(path, tensors)


@contextlib.contextmanager
def dump(path, what="qk"):
    """While it is open, every call of torch.nn.functional.scaled_dot_product_attention is a layer of the
    file, in the order of the calls:

        with phasescope.dump("attention.safetensors"):
            model(ids)

    what="qk": queries (times whatever scale is not 1/sqrt(d)) and keys; a mask that is more than causal
    cannot be said by them and is refused; of layers that see later tokens too a warning says how to open
    the file. what="maps": the weights, computed here in float32 with scale
    and mask; N x N of each head. One text at a time; a cache (fewer queries than keys) is refused.
    Modules that took the function out of torch.nn.functional by its name are recorded too; compiled
    models are not. Nothing is written where the model throws."""
    if what not in ("qk", "maps"):
        raise ValueError(f"what is 'qk' or 'maps', not {what!r}")
    import torch.nn.functional as functional
    layers, sees_later = [], []
    original = functional.scaled_dot_product_attention

    def recorded(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **more):
        out = original(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal,
                       scale=scale, **more)
        mask = None if attn_mask is None else _array(attn_mask)
        layers.append(_layer(what, _array(query), _array(key), mask, is_causal, scale))
        sees_later.append(not is_causal and query.shape[-2] > 1 and (mask is None or bool(numpy.all(_seen(mask)))))
        return out

    for names, name in _places_of(original):
        names[name] = recorded
    try:
        yield layers
    finally:
        # Also where a module that was loaded meanwhile took it by its name.
        for names, name in _places_of(recorded):
            names[name] = original
    if not layers:
        raise RuntimeError("no layer called scaled_dot_product_attention: choose the model's attention implementation "
                           "'sdpa'; where it is made of torch.nn.TransformerEncoder, switch its fast path off "
                           "(torch.backends.mha.set_fastpath_enabled(False)); or ask the model for its maps and give "
                           "them to write_maps")
    if what == "maps":
        write_maps(path, layers)
        return
    if any(sees_later) != all(sees_later):
        raise ValueError("some layers see later tokens and others do not, which queries and keys cannot say; use "
                         "what='maps'")
    write_qk(path, [q for q, _ in layers], [k for _, k in layers])
    if any(sees_later):
        warnings.warn("every query of these layers sees later tokens too, which the file cannot say: open it with "
                      "phasescope import --causal no", stacklevel=3)


def _places_of(function):
    """Where loaded modules have it: (a module's names, the name there). A layer that is called by a name of
    its own would be missing from the file."""
    modules = [vars(module) for module in list(sys.modules.values()) if isinstance(module, types.ModuleType)]
    return [(names, name) for names in modules for name, value in list(names.items()) if value is function]


def _array(value):
    """A tensor of PyTorch as an array; bfloat16 becomes float32."""
    if hasattr(value, "detach"):
        value = value.detach()
        if not str(value.dtype).endswith(("float64", "bool")):
            value = value.float()
        value = value.cpu().numpy()
    return numpy.asarray(value)


def _one_text(value, name):
    if value.ndim == 4 and value.shape[0] != 1:
        raise ValueError(f"{name} of {value.shape[0]} texts; one at a time can be kept")
    if value.ndim not in (3, 4):
        raise ValueError(f"{name} have the shape {value.shape}, not (heads, N, ...)")
    return value[0] if value.ndim == 4 else value


def _layer(what, query, key, mask, is_causal, scale):
    query, key = _one_text(query, "queries"), _one_text(key, "keys")
    if query.shape[1] != key.shape[1]:
        raise ValueError(f"{query.shape[1]} queries see {key.shape[1]} keys (a cache, or another text); run the "
                         "model on the whole text at once")
    # Heads of a group share their keys.
    key = numpy.repeat(key, query.shape[0] // key.shape[0], axis=0)
    scale = 1 / math.sqrt(query.shape[2]) if scale is None else scale
    causal = numpy.tril(numpy.ones((query.shape[1],) * 2, bool))
    if what == "maps":
        return _weights(query, key, mask, causal if is_causal else None, scale)
    if mask is not None and not is_causal and not _says_causal(mask, causal):
        raise ValueError("this mask is more than causal (padding, a window, a bias), which queries and keys "
                         "cannot say; use what='maps'")
    return query * query.dtype.type(scale * math.sqrt(query.shape[2])), key


def _says_causal(mask, causal):
    """Whether a mask lets every query see the keys up to its own, or all keys, and adds nothing."""
    seen = _seen(mask)
    adds_nothing = mask.dtype == bool or not numpy.any(mask[seen])
    return adds_nothing and (bool(numpy.all(seen)) or bool(numpy.all(seen == causal)))


def _seen(mask):
    return mask if mask.dtype == bool else mask > _HIDDEN


def _weights(query, key, mask, causal, scale):
    scores = query.astype(numpy.float32) @ key.astype(numpy.float32).swapaxes(1, 2) * numpy.float32(scale)
    if causal is not None:
        scores = numpy.where(causal, scores, -numpy.inf)
    if mask is not None:
        mask = mask[0] if mask.ndim == 4 else mask
        scores = numpy.where(mask, scores, -numpy.inf) if mask.dtype == bool else scores + mask
    most = scores.max(-1, keepdims=True)
    scores = numpy.exp(scores - numpy.where(numpy.isneginf(most), 0, most))
    # A row that sees nothing (of padding) has no weights.
    return scores / numpy.maximum(scores.sum(-1, keepdims=True), numpy.finfo(numpy.float32).tiny)
