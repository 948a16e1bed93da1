from .by_extension import ByExtension as ByExtension
from .example import Example as Example
from .voc_xml import VocXml as VocXml
