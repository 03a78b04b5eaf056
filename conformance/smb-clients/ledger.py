"""Does over SMB what it is told, a line at a time, and says how each ended: HOST PORT SHARE USER PASSWORD.

A line is a verb and what it takes, divided by tabs; numbers are decimal, data is in hexadecimal. The answer is `ok` or `status 0xNNNNNNNN`. When the
connection is gone, this ends. Each verb opens what it names and closes it again.
"""

import sys
import uuid

from smbprotocol.connection import Connection, Dialects
from smbprotocol.exceptions import SMBResponseException
from smbprotocol.file_info import (
    FileBasicInformation,
    FileDispositionInformation,
    FileEndOfFileInformation,
    FileLinkInformation,
    FileRenameInformation,
)
from smbprotocol.open import (
    CreateDisposition,
    CreateOptions,
    FilePipePrinterAccessMask,
    ImpersonationLevel,
    Open,
    ShareAccess,
    SMB2SetInfoRequest,
)
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

ALL = ShareAccess.FILE_SHARE_READ | ShareAccess.FILE_SHARE_WRITE | ShareAccess.FILE_SHARE_DELETE
ACCESS = FilePipePrinterAccessMask.GENERIC_READ | FilePipePrinterAccessMask.GENERIC_WRITE | FilePipePrinterAccessMask.DELETE
DIRECTORY = CreateOptions.FILE_DIRECTORY_FILE
FILE = CreateOptions.FILE_NON_DIRECTORY_FILE

HOST, port, share, user, password = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
connection = Connection(uuid.uuid4(), HOST, port, require_signing=True)
connection.connect(Dialects.SMB_3_1_1)
session = Session(connection, user, password, require_encryption=False)
session.connect()
tree = TreeConnect(session, rf"\\{HOST}\{share}")
tree.connect()


class Opened:
    """What a path names, open meanwhile."""

    def __init__(self, path, disposition=CreateDisposition.FILE_OPEN, options=0):
        self.open = Open(tree, path)
        self.open.create(ImpersonationLevel.Impersonation, ACCESS, 0, ALL, disposition, options)

    def __enter__(self):
        return self.open

    def __exit__(self, *_):
        self.open.close()


def change(path, information):
    """SET_INFO."""
    with Opened(path) as opened:
        request = SMB2SetInfoRequest()
        request["info_type"], request["file_info_class"] = information.INFO_TYPE, information.INFO_CLASS
        request["file_id"], request["buffer"] = opened.file_id, information
        connection.receive(connection.send(request, session.session_id, tree.tree_connect_id))


def create(path):
    with Opened(path, CreateDisposition.FILE_OPEN_IF, FILE):
        pass


def create_new(path):
    with Opened(path, CreateDisposition.FILE_CREATE, FILE):
        pass


def mkdir(path):
    with Opened(path, CreateDisposition.FILE_CREATE, DIRECTORY):
        pass


def link(path, to):
    information = FileLinkInformation()
    information["file_name"] = to
    change(path, information)


def rename(path, to):
    information = FileRenameInformation()
    information["replace_if_exists"], information["file_name"] = True, to
    change(path, information)


def remove(path):
    information = FileDispositionInformation()
    information["delete_pending"] = True
    change(path, information)


def size(path, length):
    information = FileEndOfFileInformation()
    information["end_of_file"] = int(length)
    change(path, information)


def mtime(path, time):
    """In 100 ns since 1601."""
    information = FileBasicInformation()
    information["last_write_time"] = int(time)
    change(path, information)


def write(path, offset, through, data):
    with Opened(path) as opened:
        opened.write(bytes.fromhex(data), int(offset), write_through=through == "1")


def flush(path):
    with Opened(path) as opened:
        opened.flush()


VERBS = {verb.__name__: verb for verb in (create, create_new, mkdir, link, rename, remove, size, mtime, write, flush)}
print("ready", flush=True)
for line in sys.stdin:
    verb, *arguments = line.rstrip("\n").split("\t")
    try:
        VERBS[verb](*arguments)
        print("ok", flush=True)
    except SMBResponseException as error:
        print(f"status {error.status:#010x}", flush=True)
