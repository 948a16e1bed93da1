"""Ranges and listings of S3, by moto's server on loopback."""

import os

import numpy as np
import pytest

from loaderkit._storage.open_ranges import open_ranges
from loaderkit._storage.patterns import file_parts
from loaderkit.errors import StorageError

pytestmark = pytest.mark.slow  # moto takes 3 s to import
DATA = os.urandom(100_000)
KEYS = [
    "set/train-000.tar",
    "set/train-001.tar",
    "set/deep/er/train-002.tar",
    "set/a b%20+#?é.tar",
    "set/.hidden.tar",
]


@pytest.fixture(scope="module")
def endpoint(object_runtime):
    """A bucket with a few objects."""
    boto3 = pytest.importorskip("boto3")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=address,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="topsecret",
    )
    client.create_bucket(Bucket="box")
    for key in KEYS:
        client.put_object(Bucket="box", Key=key, Body=DATA)
    client.close()
    yield address
    server.stop()


@pytest.fixture
def options(endpoint):
    """Where the bucket is, and who asks."""
    return {
        "endpoint": endpoint,
        "region": "us-east-1",
        "access_key_id": "x",
        "secret_access_key": "topsecret",
        "timeout": "10s",
    }


def read(ranges, *places):
    """The bytes of (shard, begin, end)."""
    return [bytes(each) for each in ranges.read(*np.array(places, np.int64).T)]


def test_patterns_of_a_bucket(options):
    """One request lists the names with sizes and ETags, which are those of the answers."""
    parts = file_parts("s3://box/set/train-*.tar", storage_options=options)
    assert [part.path for part in parts] == [f"s3://box/{key}" for key in KEYS[:2]]
    ranges = open_ranges(
        [part.path for part in parts], storage_options=options, expected=[part.version for part in parts]
    )
    assert read(ranges, (1, 10, 20), (0, 0, 100_000)) == [DATA[10:20], DATA]
    assert ranges.version(0) == parts[0].version
    ranges.close()
    assert len(file_parts("s3://box/set/**", storage_options=options)) == 4
    assert len(file_parts("s3://box/**/train-*.tar", storage_options=options)) == 3
    with pytest.raises(FileNotFoundError, match="no file matches the pattern"):
        file_parts("s3://box/none/*.tar", storage_options=options)


def test_names_of_any_letters(options):
    """What a key has is neither a query nor quoted."""
    ranges = open_ranges([f"s3://box/{KEYS[3]}"], storage_options=options)
    assert read(ranges, (0, 10, 20)) == [DATA[10:20]]
    ranges.close()


def test_a_bucket_that_is_not_there(options):
    """The store's code is shown, its text and the keys aren't."""
    ranges = open_ranges(["s3://none/a.tar"], storage_options=options)
    with pytest.raises((StorageError, FileNotFoundError), match=r"s3://none/a.tar") as caught:
        read(ranges, (0, 10, 20))
    ranges.close()
    assert "topsecret" not in f"{caught.value!r}"
    with pytest.raises(OSError, match="s3://none") as caught:
        file_parts("s3://none/*.tar", storage_options=options)
    assert "topsecret" not in f"{caught.value!r}"


def test_an_option_that_the_store_does_not_have(options):
    """It is named with the object."""
    ranges = open_ranges(["s3://box/a.tar"], storage_options={**options, "regoin": "x"})
    with pytest.raises(StorageError, match="regoin"):
        read(ranges, (0, 10, 20))
    ranges.close()
