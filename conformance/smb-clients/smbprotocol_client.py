"""smbprotocol, as ansible and others have it: PORT SHARE USER PASSWORD. Ends well if all is as it should be."""

import itertools
import sys
import uuid

import smbclient
from smbprotocol.connection import Connection, Dialects
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.header import NtStatus
from smbprotocol.open import (
    CreateDisposition,
    CreateOptions,
    FilePipePrinterAccessMask,
    ImpersonationLevel,
    LockFlags,
    Open,
    ShareAccess,
    SMB2LockElement,
)
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

port, share, user, password = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
HOST = "127.0.0.1"
# No multiple of any transfer or block size.
DATA = bytes(itertools.islice(itertools.cycle(range(251)), (3 << 20) + 4099))
AT_ONCE = LockFlags.SMB2_LOCKFLAG_EXCLUSIVE_LOCK | LockFlags.SMB2_LOCKFLAG_FAIL_IMMEDIATELY
RELEASE = LockFlags.SMB2_LOCKFLAG_UNLOCK
LOCK_NOT_GRANTED = 0xC0000055
FILE_LOCK_CONFLICT = 0xC0000054


def files(encrypts):
    """The way of the package's own `smbclient`, which is like `os`."""
    where = {"username": user, "password": password, "port": port, "encrypt": encrypts, "connection_cache": {}}
    root = rf"\\{HOST}\{share}"
    smbclient.mkdir(rf"{root}\py", **where)
    with smbclient.open_file(rf"{root}\py\one", mode="wb", **where) as file:
        file.write(DATA)
    smbclient.rename(rf"{root}\py\one", rf"{root}\py\Zwei ä", **where)
    assert [entry.name for entry in smbclient.scandir(rf"{root}\py", **where)] == ["Zwei ä"]
    assert smbclient.stat(rf"{root}\PY\zwei Ä", **where).st_size == len(DATA)
    with smbclient.open_file(rf"{root}\py\Zwei ä", mode="rb", **where) as file:
        assert file.read() == DATA
    smbclient.truncate(rf"{root}\py\Zwei ä", 5, **where)
    with smbclient.open_file(rf"{root}\py\Zwei ä", mode="ab", **where) as file:
        file.write(b"more")
    with smbclient.open_file(rf"{root}\py\Zwei ä", mode="rb", **where) as file:
        assert file.read() == DATA[:5] + b"more"
    smbclient.utime(rf"{root}\py\Zwei ä", times=(1_000_000_000, 1_100_000_000), **where)
    assert smbclient.stat(rf"{root}\py\Zwei ä", **where).st_mtime == 1_100_000_000
    smbclient.remove(rf"{root}\py\Zwei ä", **where)
    smbclient.rmdir(rf"{root}\py", **where)
    smbclient.reset_connection_cache(connection_cache=where["connection_cache"])


def connected(dialect, encrypts):
    connection = Connection(uuid.uuid4(), HOST, port, require_signing=True)
    connection.connect(dialect)
    session = Session(connection, user, password, require_encryption=encrypts)
    session.connect()
    tree = TreeConnect(session, rf"\\{HOST}\{share}")
    tree.connect()
    return connection, session, tree


def opened(tree, name, share_access, options=CreateOptions.FILE_NON_DIRECTORY_FILE):
    file = Open(tree, name)
    access = FilePipePrinterAccessMask.GENERIC_READ | FilePipePrinterAccessMask.GENERIC_WRITE
    access |= FilePipePrinterAccessMask.DELETE
    file.create(
        ImpersonationLevel.Impersonation, access, 0, share_access, CreateDisposition.FILE_OPEN_IF, options
    )
    return file


def lock(file, offset, length, flags):
    element = SMB2LockElement()
    element["offset"], element["length"], element["flags"] = offset, length, flags
    file.lock([element])


def refused(status, verb):
    try:
        verb()
    except SMBResponseException as error:
        assert error.status == status, error
        return
    raise AssertionError(f"{status:#x} was expected")


def locks(dialect, encrypts):
    """Two clients, their byte ranges and share modes."""
    (one, session, tree), (other, other_session, other_tree) = (connected(dialect, encrypts) for _ in range(2))
    shared = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE
    first, second = opened(tree, "locked", shared), opened(other_tree, "locked", shared)
    first.write(b"0123456789", 0)
    lock(first, 0, 4, AT_ONCE)
    refused(LOCK_NOT_GRANTED, lambda: lock(second, 3, 4, AT_ONCE))
    refused(FILE_LOCK_CONFLICT, lambda: second.read(0, 10))
    refused(FILE_LOCK_CONFLICT, lambda: second.write(b"x", 3))
    lock(second, 4, 4, AT_ONCE)
    lock(first, 0, 4, RELEASE)
    lock(second, 0, 4, AT_ONCE)
    second.close()
    first.close()
    delete = CreateOptions.FILE_NON_DIRECTORY_FILE | CreateOptions.FILE_DELETE_ON_CLOSE
    alone = opened(tree, "locked", ShareAccess.FILE_SHARE_READ, delete)
    refused(NtStatus.STATUS_SHARING_VIOLATION, lambda: opened(other_tree, "locked", shared))
    alone.close()
    assert not smbclient_sees("locked")
    for end in (session, other_session):
        end.disconnect()
    for end in (one, other):
        end.disconnect()


def smbclient_sees(name):
    where = {"username": user, "password": password, "port": port, "connection_cache": {}}
    names = smbclient.listdir(rf"\\{HOST}\{share}", **where)
    smbclient.reset_connection_cache(connection_cache=where["connection_cache"])
    return name in names


for encrypts in (False, True):
    files(encrypts)
for dialect in (Dialects.SMB_2_1_0, Dialects.SMB_3_0_0, Dialects.SMB_3_0_2, Dialects.SMB_3_1_1):
    for encrypts in (False, True):
        if dialect != Dialects.SMB_2_1_0 or not encrypts:
            locks(dialect, encrypts)
