"""The names of Grain's DataLoader side and their arguments, compared with the installed package; its settings."""

import copy
import importlib
import inspect
import pickle

import pytest
from grain_pipelines import legacy

import loaderkit.interop.grain as ours

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

# What isn't here: sources that only go in order, a cache of them, telemetry, and what Grain's own tests use.
LEFT_OUT = """
    CacheIterDataset get_element_spec monitoring PackAndBatchOperation ParquetIterDataset proto TFRecordIterDataset
"""

# Arguments that differ, each with the reason.
OTHER_ARGUMENTS = {
    "DataLoader.__init__": "worker_layout and grain_version are ours: which Grain's batches these are",
    "MultiprocessingOptions.__init__": "worker_count is ours, behind Grain's: how many processes there are",
    "DatasetOptions.__init__": "the defaults, which are the same, are objects of Grain's own in its signature",
    "ShapeDtypeStruct.__init__": "in Grain's signature the properties of a protocol are defaults",
    "load": "the default of shard_options, which is NoSharding() in both",
    "RecordMetadata.__init__": "name is ours, behind those of Grain's: what the source calls the record",
    "Operation.__call__": "the one argument has another name, and is given by its place",
}
# Members that aren't here, each with the reason.
OTHER_MEMBERS = {
    "SharedMemoryArray": "close_shm_async: what Grain's threads call, and nothing else can",
    "BatchOperation": "disable_deprecation_message: a filter of warnings does that",
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
    """And the error of one that is left out says where to take it from."""
    theirs, mine = both(installed_grain, module)
    missing = {name for name in public(theirs) if not hasattr(mine, name)}
    assert missing <= {*LEFT_OUT.split()}
    for name in missing:
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}': .* from the installed grain$"):
            getattr(mine, name)


@pytest.mark.parametrize("module", ["checkpoint", "samplers", "sharding", "sources", "multiprocessing"])
def test_the_list_of_a_module_has_names_of_grain_alone(installed_grain, module):
    """A star import and the reference show no helper of ours; `even_split` was public in a release."""
    theirs, mine = both(installed_grain, module)
    assert {*mine.__all__} <= {*public(theirs), "even_split"}


def test_nothing_is_left_out_that_is_here(installed_grain):
    """Nor a name that Grain hasn't."""
    modules = [both(installed_grain, module) for module in MODULES]
    assert not [name for name in LEFT_OUT.split() if any(hasattr(mine, name) for _, mine in modules)]
    assert not [name for name in LEFT_OUT.split() if not any(hasattr(theirs, name) for theirs, _ in modules)]


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


def test_a_loader_whose_states_dont_restore_is_told():
    """As Grain's own check tells it; one that does passes."""
    check = ours.experimental.assert_equal_output_after_checkpoint
    check(ours.load([*range(7)], num_epochs=1, batch_size=2))
    made = iter(range(100))
    with pytest.raises(AssertionError, match="what comes after 0 elements is other than before"):
        check(
            ours.load(
                [*range(3)], num_epochs=1, transformations=[legacy(ours.MapOperation, lambda _: next(made))]
            )
        )
    with pytest.raises(AssertionError, match="expected an element or more"):
        check(ours.load([1, 2], num_epochs=1, batch_size=3, drop_remainder=True))


def test_elements_are_put_on_devices():
    """And the position is that of the loader's iterator."""
    jax = pytest.importorskip("jax", reason="needs the jax package")
    (device, *_) = jax.devices()
    loader = ours.experimental.device_put(ours.load([5, 6, 7], num_epochs=1), device)
    it = iter(loader)
    first, state = next(it), it.get_state()
    assert first == 5 and isinstance(first, jax.Array) and first.devices() == {device}
    assert [*it] == [6, 7]
    again = iter(loader)
    again.set_state(state)
    assert [*again] == [6, 7]


def test_names_that_need_orbax_are_where_grain_has_them():
    """Not among the experimental ones."""
    for module in (ours.experimental, ours.python.experimental):
        for name in ("PyGrainCheckpointSave", "PyGrainCheckpointRestore", "nothing"):
            with pytest.raises(AttributeError, match=rf"has no attribute '{name}': "):
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
    before = dict(vars(ours.config))
    yield ours.config
    vars(ours.config).clear()
    vars(ours.config).update(before)


def test_settings_are_taken_and_change_no_batch(config):
    """As a script of Grain's sets them, under each of the names."""
    assert config is ours.python.config
    expected = list(ours.load([1, 2, 3], num_epochs=1))
    for name, value in SETTINGS.items():
        config.update(name, value)
        assert getattr(config, name) == config.get_or_default(name) == value
    assert list(ours.load([1, 2, 3], num_epochs=1)) == expected


def test_an_unknown_setting_is_an_error(config):
    """And what there is is said."""
    for wrong in (
        lambda: config.update("threads", 1),
        lambda: config.get_or_default("threads"),
        lambda: config.threads,
    ):
        with pytest.raises(ValueError, match=r"expected one of .*, py_debug_mode, .*, got 'threads'"):
            wrong()
    with pytest.raises(ValueError, match=r"expected config.update\('py_debug_mode', True\)"):
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
    for name in ours._config.Config.__annotations__:
        assert config.get_or_default(name) == ours._config.Config().get_or_default(name)
    for wrong in (config, ours.config):
        with pytest.raises(ValueError, match="nothing_known"):
            wrong.update("nothing_known", 1)
    flags = importlib.import_module("absl.flags").FLAGS
    of_config = flags.find_module_defining_flag("grain_py_debug_mode")
    defined = {flag.name for flag in flags.flags_by_module_dict()[of_config]}
    assert {name.removeprefix("grain_") for name in defined} == ours._config.Config.__annotations__.keys()
