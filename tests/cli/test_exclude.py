"""`loaderkit exclude`."""

from pathlib import Path

import loaderkit as lk


def test_a_list_is_made_of_a_file_of_ids_and_a_loader_of_the_files_takes_it(loaderkit, tmp_path):
    """By the ids of a field, or by keys; what can't be listed is said, and nothing is written."""
    web = str(tmp_path / "web.jsonl")
    lk.write([{"id": f"page-{number}", "at": number} for number in range(6)], web)
    ids = tmp_path / "ids.txt"
    ids.write_text("page-3\npage-1\n")
    blocked = str(tmp_path / "blocked")
    (said,) = loaderkit(
        "exclude", web, blocked, "--ids", str(ids), "--reason", "a request", "--json"
    ).documents
    assert said == {"list": said["list"], "records": 2, "of": 6, "reason": "a request"}
    assert Path(tmp_path, said["list"]).exists()
    assert loaderkit("exclude", web, blocked, "--key", "5", "--reason", "a leak").status == 0
    read = [record["at"] for record in lk.load(lk.open(web), num_epochs=1, exclude=blocked)]
    assert read == [0, 2, 4]
    ids.write_text("page-9\n")
    refused = loaderkit("exclude", web, str(tmp_path / "other"), "--ids", str(ids), "--reason", "a request")
    assert refused.status == 2 and "got 1 others: 'page-9'" in refused.err
    assert not (tmp_path / "other").exists()
