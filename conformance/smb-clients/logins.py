"""Connects, logs in, connects to the share, and leaves, again and again: PORT SHARE USER PASSWORD TIMES.

Prints how many milliseconds the median and the 99th percentile took, and how many microseconds of processor time each took here.
"""

import sys
import time
import uuid

from smbprotocol.connection import Connection, Dialects
from smbprotocol.session import Session
from smbprotocol.tree import TreeConnect

port, share, user, password, times = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5])
took = []
for _ in range(times):
    begun = time.monotonic()
    connection = Connection(uuid.uuid4(), "127.0.0.1", port, require_signing=True)
    connection.connect(Dialects.SMB_3_1_1)
    session = Session(connection, user, password, require_encryption=False, auth_protocol="ntlm")
    session.connect()
    TreeConnect(session, rf"\\127.0.0.1\{share}").connect()
    connection.disconnect()
    took.append(time.monotonic() - begun)
took.sort()
print(took[times // 2] * 1e3, took[times * 99 // 100] * 1e3, time.process_time() * 1e6 / times)
