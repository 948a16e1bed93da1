"""Archives for the tests of commands."""

import io
import struct
import tarfile


def tar_of(path, records, form=tarfile.USTAR_FORMAT):
    """An archive with the fields of each record one after the other."""
    with tarfile.open(path, "w", format=form) as archive:
        for key, fields in records:
            for name, value in fields.items():
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(value)
                archive.addfile(member, io.BytesIO(value))


def tfrecord_of(path, records):
    """A TFRecord file."""
    import google_crc32c

    def checksum(data):
        crc = google_crc32c.value(data)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    heads = [(struct.pack("<Q", len(data)), data) for data in records]
    path.write_bytes(b"".join(head + checksum(head) + data + checksum(data) for head, data in heads))
