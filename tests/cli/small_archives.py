"""Archives for the tests of commands."""

import io
import tarfile


def tar_of(path, records, form=tarfile.USTAR_FORMAT):
    """An archive with the fields of each record one after the other."""
    with tarfile.open(path, "w", format=form) as archive:
        for key, fields in records:
            for name, value in fields.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(value)
                archive.addfile(member, io.BytesIO(value))
