"""The names of Grain's DataLoader side and their arguments, compared with the installed package; its settings."""

import copy
import importlib
import inspect
import pickle

import pytest

import loaderkit.interop.grain as ours
from loaderkit.interop.grain._lazy import LEFT_OUT

MODULES = (
    "",
    "checkpoint",
    "constants",
    "experimental",
    "multiprocessing",
    "python",
    "python.experimental",
    "samplers",
    "sharding",
    "sources",
    "transforms",
)

# Arguments that differ, each with the reason.
OTHER_ARGUMENTS = {
    "DataLoader.__init__": "worker_layout is ours: the worker_count of the Grain run whose batches these are",
    "load": "the default of shard_options, which is NoSharding() in both",
    "Operation.__call__": "the one argument has another name, and is given by its place",
}
# Members that aren't here, each with the reason.
OTHER_MEMBERS = {
    "BatchOperation": "disable_deprecation_message: there is no such message here",
}


def both(installed_grain, module: str):
    """A module of Grain's, and ours."""
    del installed_grain  # it is imported, its flags are parsed
    theirs = importlib.import_module("grain")
    mine = ours
    for part in filter(None, module.split(".")):
        theirs, mine = getattr(theirs, part), getattr(mine, part)
    return theirs, mine


def public(thing) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]


def arguments(function) -> list[tuple]:
    signature = inspect.signature(function)
    return [(it.name, it.kind.name, repr(it.default)) for it in signature.parameters.values()]


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_here_or_left_out_for_a_reason(installed_grain, module):
    """And what is left out says why, where it is asked for."""
    theirs, mine = both(installed_grain, module)
    missing = {name for name in public(theirs) if not hasattr(mine, name)}
    assert missing <= LEFT_OUT.keys()
    for name in missing:
        with pytest.raises(AttributeError, match=r"has no attribute .*: "):
            getattr(mine, name)


def test_nothing_is_left_out_that_is_here(installed_grain):
    """Nor is a reason given for a name that Grain hasn't."""
    modules = [both(installed_grain, module) for module in MODULES]
    assert not [name for name in LEFT_OUT if any(hasattr(mine, name) for _, mine in modules)]
    assert not [name for name in LEFT_OUT if not any(hasattr(theirs, name) for theirs, _ in modules)]


@pytest.mark.parametrize("module", MODULES)
def test_arguments_are_the_same(installed_grain, module):
    """Names, kinds and defaults, of functions, classes and their methods."""
    theirs, mine = both(installed_grain, module)
    members: set[str] = set()
    differing: set[str] = set()
    for name in public(theirs):
        thing, own = getattr(theirs, name), getattr(mine, name, None)
        if inspect.isfunction(thing) and own is not None:
            differing |= {name} if arguments(thing) != arguments(own) else set()
        if not inspect.isclass(thing) or own is None:
            continue
        if any(not hasattr(own, member) for member in public(thing)):
            members.add(name)
        for method in ("__init__", "__call__", *public(thing)):
            function, same = vars(thing).get(method), getattr(own, method, None)
            if inspect.isfunction(function) and same is not None and arguments(function) != arguments(same):
                differing.add(f"{name}.{method}")
    assert members <= OTHER_MEMBERS.keys()
    assert differing <= OTHER_ARGUMENTS.keys()


@pytest.mark.parametrize("module", MODULES[1:])
def test_modules_can_be_imported_by_their_names(module):
    """`from grain.python.experimental import index_shuffle` and the like."""
    found = importlib.import_module(f"{ours.__name__}.{module}")
    parent = ours
    for part in module.split("."):
        parent = getattr(parent, part)
    assert found is parent


def test_names_that_need_orbax_are_where_grain_has_them():
    """Not among the experimental ones."""
    for module in (ours.experimental, ours.python.experimental):
        for name in ("PyGrainCheckpointSave", "PyGrainCheckpointRestore", "nothing"):
            with pytest.raises(AttributeError, match=rf"has no attribute '{name}'$"):
                getattr(module, name)


# --- settings --------------------------------------------------------------------------------------------------------

SETTINGS = {
    "py_debug_mode": True,
    "py_traceback_filtering": "off",
    "py_relay_sigterm_to_main": True,
    "py_dataset_visualization_output_dir": "",
    "tf_lookup_batch_size": 7,
}


@pytest.fixture
def config():
    """Our settings, as they were before when the test is over."""
    before = dict(ours.config._values)
    yield ours.config
    ours.config._values.update(before)


def test_settings_are_taken_and_change_no_batch(config):
    """As a script of Grain's sets them, under each of the names."""
    assert config is ours.python.config
    expected = list(ours.load([1, 2, 3], num_epochs=1))
    for name, value in SETTINGS.items():
        config.update(name, value)
        assert getattr(config, name) == config.get_or_default(name) == value
    assert list(ours.load([1, 2, 3], num_epochs=1)) == expected


def test_an_unknown_setting_is_an_error(config):
    """And what there is or was meant is said."""
    for wrong in (
        lambda: config.update("grain_py_debug_mode", True),
        lambda: config.get_or_default("debug_mode"),
        lambda: config.debug_mode,
    ):
        with pytest.raises(ValueError, match="did you mean 'py_debug_mode'"):
            wrong()
    with pytest.raises(ValueError, match="there are py_dataset_visualization_output_dir, py_debug_mode"):
        config.update("threads", 1)
    with pytest.raises(ValueError, match=r"config.update\('py_debug_mode', True\)"):
        config.py_debug_mode = True
    assert config.py_debug_mode is False


def test_settings_can_be_copied():
    """A script's configuration may hold them."""
    made = ours._config.Config()
    made.update("py_debug_mode", True)
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert again.py_debug_mode is True and again is not made


def test_settings_are_grains(installed_grain):
    """The same names with the same defaults, in the installed package; both refuse others."""
    config = installed_grain.config
    for name, default in ours._config._DEFAULTS.items():
        assert config.get_or_default(name) == default
    for wrong in (config, ours.config):
        with pytest.raises(ValueError, match="nothing_known"):
            wrong.update("nothing_known", 1)
    flags = importlib.import_module("absl.flags").FLAGS
    of_config = flags.find_module_defining_flag("grain_py_debug_mode")
    defined = {flag.name for flag in flags.flags_by_module_dict()[of_config]}
    assert {name.removeprefix("grain_") for name in defined} == ours._config._DEFAULTS.keys()
