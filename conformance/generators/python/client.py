"""Manages volumes with the client that openapi-python-client made: client.py URL TOKEN."""

import sys
from http import HTTPStatus

from plimsoll_client import AuthenticatedClient
from plimsoll_client.api.pools import create_pool, delete_pool
from plimsoll_client.api.volumes import change_volume, create_volume, delete_volume, list_volumes
from plimsoll_client.models import LevelName, NewPool, NewVolume, Problem, Protocol, Rule, VolumePatch

GIB = 1 << 30
NAME = "from-python"


def main():
    url, token = sys.argv[1:]
    client = AuthenticatedClient(base_url=url, token=token)

    pool = NewPool(name=NAME, level=LevelName.PLIMSOLLUNLIMITED, size_bytes=4 * GIB)
    reply = create_pool.sync_detailed(client=client, body=pool)
    assert reply.status_code == HTTPStatus.CREATED, reply

    new = NewVolume(
        name=NAME,
        pool=NAME,
        size_bytes=GIB,
        protocols=[Protocol.NFSV3],
        rules=[Rule(clients=["127.0.0.1"])],
    )
    created = create_volume.sync_detailed(client=client, body=new)
    assert created.status_code == HTTPStatus.CREATED, created
    volume = created.parsed
    assert (volume.name, volume.size_bytes, volume.rules[0].clients) == (NAME, GIB, ["127.0.0.1"]), volume
    again = create_volume.sync_detailed(client=client, body=new)
    assert again.status_code == HTTPStatus.OK, again

    listed = list_volumes.sync(client=client, limit=1000)
    assert volume in listed.items, listed

    tag = f'"{volume.version}"'
    assert created.headers["etag"] == tag, created.headers
    patch = VolumePatch(size_bytes=2 * GIB)
    changed = change_volume.sync(NAME, client=client, body=patch, if_match=tag)
    assert changed.size_bytes == 2 * GIB, changed

    stale = change_volume.sync_detailed(NAME, client=client, body=patch, if_match=tag)
    assert stale.status_code == HTTPStatus.PRECONDITION_FAILED, stale
    assert isinstance(stale.parsed, Problem), stale
    assert stale.parsed.type_ == "urn:plimsoll:problem:version", stale.parsed

    second = NewVolume(name="second", pool=NAME, size_bytes=3 * GIB)
    refused = create_volume.sync(client=client, body=second)
    assert isinstance(refused, Problem) and refused.forceable, refused
    assert NAME in refused.detail, refused

    deleted = delete_volume.sync(NAME, client=client, if_match=f'"{changed.version}"')
    assert deleted.outcome == "succeeded", deleted
    assert delete_pool.sync_detailed(NAME, client=client).status_code == HTTPStatus.OK


main()
