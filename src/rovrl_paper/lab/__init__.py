"""The embedded job: a tiny model that learns addition under planted corruption, method beside method."""
