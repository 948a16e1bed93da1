"""What a data source is: the protocol, its optional members, its names and marks; no source."""
