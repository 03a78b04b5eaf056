"""impacket, which speaks SMB and DCE/RPC: PORT SHARE USER PASSWORD. Ends well if all is as it should be."""

import io
import itertools
import sys

from impacket.dcerpc.v5 import lsad, lsat, srvs, transport, wkst
from impacket.dcerpc.v5.dtypes import MAXIMUM_ALLOWED
from impacket.smb3structs import SMB2_DIALECT_21, SMB2_DIALECT_30, SMB2_DIALECT_311
from impacket.smbconnection import SessionError, SMBConnection

port, share, user, password = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
HOST = "127.0.0.1"
# No multiple of any transfer or block size.
DATA = bytes(itertools.islice(itertools.cycle(range(241)), (1 << 20) + 4099))


def connected(dialect):
    connection = SMBConnection(HOST, HOST, sess_port=port, preferredDialect=dialect)
    connection.login(user, password)
    return connection


def files(dialect):
    connection = connected(dialect)
    connection.createDirectory(share, "im")
    connection.putFile(share, r"im\one", io.BytesIO(DATA).read)
    connection.rename(share, r"im\one", r"im\Two")
    listed = {entry.get_longname(): entry.get_filesize() for entry in connection.listPath(share, r"im\*")}
    assert listed.pop("Two") == len(DATA), listed
    assert set(listed) == {".", ".."}, listed
    back = io.BytesIO()
    connection.getFile(share, r"IM\two", back.write)
    assert back.getvalue() == DATA
    connection.deleteFile(share, r"im\Two")
    connection.deleteDirectory(share, "im")
    try:
        connection.listPath(share, r"im\*")
    except SessionError as error:
        assert "STATUS_OBJECT_NAME_NOT_FOUND" in str(error) or "STATUS_OBJECT_PATH_NOT_FOUND" in str(error), error
    else:
        raise AssertionError("the directory is still there")
    connection.logoff()


def bound(pipe, interface):
    binding = transport.SMBTransport(HOST, port, pipe, username=user, password=password)
    service = binding.get_dce_rpc()
    service.connect()
    service.bind(interface)
    return service


def services():
    shares = connected(SMB2_DIALECT_311).listShares()
    names = {entry["shi1_netname"][:-1] for entry in shares}
    assert {share, "IPC$"} <= names, names
    service = bound(r"\srvsvc", srvs.MSRPC_UUID_SRVS)
    told = srvs.hNetrShareGetInfo(service, share + "\x00", 1)
    assert told["InfoStruct"]["ShareInfo1"]["shi1_netname"] == share + "\x00"
    srvs.hNetrServerGetInfo(service, 101)
    service.disconnect()
    service = bound(r"\wkssvc", wkst.MSRPC_UUID_WKST)
    wkst.hNetrWkstaGetInfo(service, 100)
    service.disconnect()
    service = bound(r"\lsarpc", lsat.MSRPC_UUID_LSAT)
    policy = lsad.hLsarOpenPolicy2(service, MAXIMUM_ALLOWED | lsat.POLICY_LOOKUP_NAMES)["PolicyHandle"]
    found = lsat.hLsarLookupNames(service, policy, (user,))
    domain = found["ReferencedDomains"]["Domains"][0]["Sid"].formatCanonical()
    sid = f"{domain}-{found['TranslatedSids']['Sids'][0]['RelativeId']}"
    back = lsat.hLsarLookupSids(service, policy, (sid,))
    assert back["TranslatedNames"]["Names"][0]["Name"] == user
    service.disconnect()


for dialect in (SMB2_DIALECT_21, SMB2_DIALECT_30, SMB2_DIALECT_311):
    files(dialect)
services()
