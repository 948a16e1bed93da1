"""Boxes of VOC's XML."""

import numpy as np
import pytest

import loaderkit as lk
from loaderkit.transforms.parameters import parameters_of

pytestmark = pytest.mark.filterwarnings(r"ignore:VocXml\(\):DeprecationWarning")

BOX = "<bndbox><ymin>2</ymin><xmin>1.5</xmin><xmax>30</xmax><ymax>40</ymax></bndbox>"
PART = f"<part><name>head</name>{BOX}</part>"  # an object's own box isn't this one


def voc(objects):
    return f"<?xml version='1.0'?><annotation><filename>a.jpg</filename>{objects}</annotation>".encode()


def test_voc_xml():
    """A list or a dict of classes, bytes or text, alone or a field; no objects; parts are no objects."""
    two = voc(
        f"<object>{PART}<name> dog </name><difficult>1</difficult>{BOX}</object><object><name>cat</name>{BOX}</object>"
    )
    found = lk.decode.VocXml(["cat", "dog"]).map(two)
    assert found["boxes"].tolist() == [[1.5, 2, 30, 40]] * 2 and found["boxes"].dtype == np.float32
    assert found["labels"].tolist() == [1, 0] and found["labels"].dtype == np.int64
    assert found["difficult"].tolist() == [True, False] and found["difficult"].dtype == bool
    named = lk.decode.VocXml({"cat": 7, "dog": 9}, key="xml")
    element = {"jpg": b"", "xml": two.decode()}
    assert named.map(element)["xml"]["labels"].tolist() == [9, 7] and isinstance(element["xml"], str)
    none = named.map({"xml": voc("")})["xml"]
    assert none["boxes"].shape == (0, 4) and none["labels"].shape == none["difficult"].shape == (0,)
    assert lk.decode.VocXml(["cat"]) == lk.decode.VocXml({"cat": 0}) and len({named, named}) == 1
    assert parameters_of([lk.decode.VocXml(["cat"])]) != parameters_of([lk.decode.VocXml(["dog"])])


def test_what_is_no_annotation():
    """With what was expected; a DTD is refused before its entities are read."""
    bomb = b'<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]><annotation>&c;</annotation>'
    box = BOX.replace
    for xml, text in [
        (b"<annotation>", "expected well-formed XML, got b'<annotation>': no element found"),
        (b"", "expected well-formed XML"),
        (bomb, "without a DTD"),
        (bomb.decode().encode("utf-16"), "without a DTD"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><annotation/>', "without a DTD"),
        (b"<html/>", "expected an <annotation>, got a <html>"),
        (voc(f"<object>{BOX}</object>"), "object 0: expected a <name>"),
        (voc("<object><name>cat</name></object>"), "object 0, 'cat': expected a <bndbox>"),
        (voc(f"<object><name>cow</name>{BOX}</object>"), "one of the classes 'cat', got 'cow'"),
        (voc(f"<object><name>cat</name>{box('40', 'nan')}</object>"), "<ymax>: expected a number, got 'nan'"),
        (voc(f"<object><name>cat</name>{box('40', '1')}</object>"), "expected xmin <= xmax"),
        (voc(f"<object><name>cat</name>{box('<xmax>30</xmax>', '')}</object>"), "expected a <xmax>"),
        (
            voc(f"<object><name>cat</name><difficult>no</difficult>{BOX}</object>"),
            "expected 0 or 1, got 'no'",
        ),
    ]:
        with pytest.raises(ValueError, match=r"^VocXml: ") as error:
            lk.decode.VocXml(["cat"]).map(xml)
        assert text in str(error.value)
    with pytest.raises(TypeError, match="for a record give key="):
        lk.decode.VocXml(["cat"]).map({"xml": b""})
    with pytest.raises(ValueError, match="with the field 'xml'"):
        lk.decode.VocXml(["cat"], key="xml").map({"jpg": b""})
    for classes, error in [
        ("cat", TypeError),
        ({"cat": "1"}, TypeError),
        (["a", "a"], ValueError),
        ([], ValueError),
    ]:
        with pytest.raises(error, match=r"^classes: expected"):
            lk.decode.VocXml(classes)
    with pytest.raises(TypeError, match=r"^key: expected"):
        lk.decode.VocXml(["cat"], key=3)
