"""Holds files open over SMB as no client in a kernel does, until a file `release` is there: PORT SHARE USER PASSWORD.

`denied` is open and shared with nobody, `readable` with those who read; the first four bytes of `locked` are locked, and `doomed` is to
be deleted when it is closed. A file `held` says that all is so.
"""

import sys
import time
import uuid

from smbprotocol.connection import Connection, Dialects
from smbprotocol.exceptions import SMBResponseException
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
connection = Connection(uuid.uuid4(), "127.0.0.1", port, require_signing=True)
connection.connect(Dialects.SMB_3_1_1)
session = Session(connection, user, password, require_encryption=False)
session.connect()
tree = TreeConnect(session, rf"\\127.0.0.1\{share}")
tree.connect()
ALL = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE
READ_AND_WRITE = FilePipePrinterAccessMask.GENERIC_READ | FilePipePrinterAccessMask.GENERIC_WRITE


def opened(name, shared, disposition=CreateDisposition.FILE_OPEN_IF, more=0):
    file = Open(tree, name)
    options = CreateOptions.FILE_NON_DIRECTORY_FILE | more
    access = READ_AND_WRITE | FilePipePrinterAccessMask.DELETE
    file.create(ImpersonationLevel.Impersonation, access, 0, shared, disposition, options)
    return file


def is_there(name):
    try:
        opened(name, ALL, CreateDisposition.FILE_OPEN).close()
    except SMBResponseException:
        return False
    return True


held = [opened("denied", 0), opened("readable", ShareAccess.FILE_SHARE_READ), opened("locked", ALL)]
held[0].write(b"denied", 0)
held[1].write(b"readable", 0)
held[2].write(b"locked", 0)
first = SMB2LockElement()
first["offset"], first["length"] = 0, 4
first["flags"] = LockFlags.SMB2_LOCKFLAG_EXCLUSIVE_LOCK | LockFlags.SMB2_LOCKFLAG_FAIL_IMMEDIATELY
held[2].lock([first])
held.append(opened("doomed", ALL, more=CreateOptions.FILE_DELETE_ON_CLOSE))
opened("held", ALL).close()
while not is_there("release"):
    time.sleep(0.1)
for file in held:
    file.close()
session.disconnect()
connection.disconnect()
