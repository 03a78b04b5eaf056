"""libsmb2: writes, reads back, looks at, renames and removes over each dialect, signed and encrypted.

Its arguments are port, share, user and password.
"""

import ctypes
import sys

MUST_BE_SIGNED, NTLMSSP = 1, 1
READ_WRITE_CREATE = 0o2 | 0o100
DATA = bytes(range(256)) * 4000

library = ctypes.CDLL("libsmb2.so.6")
pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p


def function(name, result, *arguments):
    found = getattr(library, name)
    found.restype, found.argtypes = result, arguments
    return found


new = function("smb2_init_context", pointer)
free = function("smb2_destroy_context", None, pointer)
why = function("smb2_get_error", text, pointer)
set_user = function("smb2_set_user", None, pointer, text)
set_password = function("smb2_set_password", None, pointer, text)
set_security_mode = function("smb2_set_security_mode", None, pointer, ctypes.c_uint16)
set_sign = function("smb2_set_sign", None, pointer, number)
set_seal = function("smb2_set_seal", None, pointer, number)
set_authentication = function("smb2_set_authentication", None, pointer, number)
set_version = function("smb2_set_version", None, pointer, number)
connect = function("smb2_connect_share", number, pointer, text, text, text)
disconnect = function("smb2_disconnect_share", number, pointer)
make = function("smb2_mkdir", number, pointer, text)
remove_directory = function("smb2_rmdir", number, pointer, text)
open_file = function("smb2_open", pointer, pointer, text, number)
close = function("smb2_close", number, pointer, pointer)
write = function("smb2_pwrite", number, pointer, pointer, text, ctypes.c_uint32, ctypes.c_uint64)
read = function("smb2_pread", number, pointer, pointer, pointer, ctypes.c_uint32, ctypes.c_uint64)
flush = function("smb2_fsync", number, pointer, pointer)
truncate = function("smb2_ftruncate", number, pointer, pointer, ctypes.c_uint64)
rename = function("smb2_rename", number, pointer, text, text)
remove = function("smb2_unlink", number, pointer, text)


def transferred(move, context, file, buffer, size):
    """Moves all of it, in parts as long as the server takes."""
    at = 0
    while at < size:
        part = move(context, file, buffer(at), size - at, at)
        if part <= 0:
            return at
        at += part
    return at


def drive(port, share, user, password, dialect, encrypts):
    context = new()

    def done(result):
        assert result is not None and (not isinstance(result, int) or result >= 0), why(context)
        return result

    set_user(context, user.encode())
    set_password(context, password.encode())
    set_security_mode(context, MUST_BE_SIGNED)
    set_authentication(context, NTLMSSP)
    set_version(context, dialect)
    set_sign(context, 1)
    set_seal(context, encrypts)
    done(connect(context, f"127.0.0.1:{port}".encode(), share.encode(), user.encode()))
    done(make(context, b"libsmb2"))
    file = done(open_file(context, b"libsmb2/file", READ_WRITE_CREATE))
    assert transferred(write, context, file, lambda at: DATA[at:], len(DATA)) == len(DATA), why(context)
    done(flush(context, file))
    back = ctypes.create_string_buffer(len(DATA))
    assert transferred(read, context, file, lambda at: ctypes.addressof(back) + at, len(DATA)) == len(DATA), why(context)
    assert back.raw == DATA, "other bytes come back"
    done(truncate(context, file, 1000))
    assert read(context, file, ctypes.addressof(back), len(DATA), 0) == 1000, "it was cut"
    done(close(context, file))
    done(rename(context, b"libsmb2/file", b"libsmb2/other"))
    assert open_file(context, b"libsmb2/file", 0) is None, "the old name is still there"
    done(remove(context, b"libsmb2/other"))
    done(remove_directory(context, b"libsmb2"))
    done(disconnect(context))
    free(context)


def refused(port, share, user):
    context = new()
    set_user(context, user.encode())
    set_password(context, b"another password")
    set_authentication(context, NTLMSSP)
    answer = connect(context, f"127.0.0.1:{port}".encode(), share.encode(), user.encode())
    assert answer < 0, "a wrong password is taken"
    assert b"STATUS_LOGON_FAILURE" in why(context), why(context)
    free(context)


port, share, user, password = sys.argv[1:]
for dialect, encrypts in [(0x210, 0), (0x300, 0), (0x302, 0), (0x311, 0), (0x300, 1), (0x311, 1)]:
    drive(port, share, user, password, dialect, encrypts)
refused(port, share, user)
