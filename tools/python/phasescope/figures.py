"""Figures as the command line draws them, shown inline."""

from .drawn import figures_of_command
from .model import Model

_BETWEEN = {"size": "x"}  # what stands between the two of a pair, where it is no colon


def figures(verb, *arguments, host=None, **options):
    """What `phasescope VERB ARGUMENTS --options` draws. Arguments are models (opened here or by name),
    paths and words. Options by name, underscores for dashes: a list is joined by commas, a pair (a, b)
    is a:b (a size AxB), a mapping is given entry by entry, True is a flag. What a model was opened with
    holds here too; of several models it must be the same."""
    models = [one for one in arguments if isinstance(one, Model)]
    if any(one.opening != models[0].opening or one.worker.host != models[0].worker.host for one in models):
        raise ValueError("models that were opened in different ways cannot be in one command")
    words = [verb, *(str(one.name if isinstance(one, Model) else one) for one in arguments)]
    if models:
        host, options = host or models[0].worker.host, {**models[0].opening, **options}
    for name, value in options.items():
        words += _option("--" + name.replace("_", "-"), value)
    return figures_of_command(words, host)


def _option(name, value):
    if value is None or value is False:
        return []
    if value is True:
        return [name]
    if isinstance(value, dict):
        return [word for key, item in value.items() for word in (name, f"{key}={item}")]
    if isinstance(value, tuple):
        return [name, _BETWEEN.get(name[2:], ":").join(map(str, value))]
    if isinstance(value, list):
        return [name, ",".join(map(str, value))]
    return [name, str(value)]
