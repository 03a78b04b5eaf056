"""impacket, which speaks SMB and DCE/RPC: PORT SHARE USER PASSWORD. Ends well if all is as it should be."""

import io
import itertools
import sys

from impacket.dcerpc.v5 import lsad, lsat, samr, srvs, transport, wkst
from impacket.dcerpc.v5.dtypes import MAXIMUM_ALLOWED
from impacket.dcerpc.v5.rpcrt import DCERPCException
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
    return sid


def part(call, *arguments, **named):
    """The results of a call of which there may be more, which impacket takes for an error."""
    try:
        return call(*arguments, **named)
    except samr.DCERPCSessionError as error:
        assert error.get_error_code() == 0x105, error
        return error.get_packet()


def listed(service, domain, call, bytes_max):
    """All of a list, in parts of this size."""
    found, context, more = {}, 0, True
    while more:
        told = part(call, service, domain, enumerationContext=context, preferedMaximumLength=bytes_max)
        entries = {entry["RelativeId"]: entry["Name"] for entry in told["Buffer"]["Buffer"]}
        assert entries and not entries.keys() & found.keys(), entries
        found |= entries
        context, more = told["EnumerationContext"], told["ErrorCode"] == 0x105
    return found


def accounts(sid):
    service = bound(r"\samr", samr.MSRPC_UUID_SAMR)
    server = samr.hSamrConnect(service)["ServerHandle"]
    samr.hSamrConnect5(service)
    names = [entry["Name"] for entry in samr.hSamrEnumerateDomainsInSamServer(service, server)["Buffer"]["Buffer"]]
    assert names[1:] == ["Builtin"], names
    above, _, rid = sid.rpartition("-")
    found = samr.hSamrLookupDomainInSamServer(service, server, names[0])["DomainId"]
    assert found.formatCanonical() == above
    domain = samr.hSamrOpenDomain(service, server, domainId=found)["DomainHandle"]
    for bytes_max in (1, 0xFFFF):
        users = listed(service, domain, samr.hSamrEnumerateUsersInDomain, bytes_max)
        assert users[int(rid)] == user, users
    aliases = listed(service, domain, samr.hSamrEnumerateAliasesInDomain, 0xFFFF)
    for level in (1, 2, 3, 5, 8, 11, 12, 13):
        samr.hSamrQueryInformationDomain2(service, domain, level)
    back = samr.hSamrLookupIdsInDomain(service, domain, (int(rid), 513))
    assert [name["Data"] for name in back["Names"]["Element"]] == [user, "None"]
    back = samr.hSamrLookupNamesInDomain(service, domain, (user, *aliases.values()))
    assert [entry["Data"] for entry in back["RelativeIds"]["Element"]] == [int(rid), *aliases]
    for level, name in ((samr.DOMAIN_DISPLAY_INFORMATION.DomainDisplayUser, "UserInformation"),
                        (samr.DOMAIN_DISPLAY_INFORMATION.DomainDisplayGroup, "GroupInformation")):
        shown = samr.hSamrQueryDisplayInformation3(service, domain, level)["Buffer"][name]["Buffer"]
        assert [entry["AccountName"] for entry in shown] == (
            sorted(users.values()) if name == "UserInformation" else ["None"])
    of_user = samr.hSamrOpenUser(service, domain, userId=int(rid))["UserHandle"]
    levels = samr.USER_INFORMATION_CLASS
    told = samr.hSamrQueryInformationUser2(service, of_user, levels.UserAllInformation)["Buffer"]["All"]
    assert (told["UserName"], told["UserId"], told["PrimaryGroupId"]) == (user, int(rid), 513)
    assert (told["NtPasswordPresent"], told["NtOwfPassword"]["Length"]) == (0, 0)
    for level in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 20):
        samr.hSamrQueryInformationUser(service, of_user, level)
    assert samr.hSamrGetGroupsForUser(service, of_user)["Groups"]["Groups"][0]["RelativeId"] == 513
    for alias in aliases:
        of_alias = samr.hSamrOpenAlias(service, domain, aliasId=alias)["AliasHandle"]
        told = samr.hSamrQueryInformationAlias(service, of_alias)["Buffer"]["General"]
        members = samr.hSamrGetMembersInAlias(service, of_alias)["Members"]["Sids"]
        assert (told["Name"], told["MemberCount"]) == (aliases[alias], len(members))
        # Those whose members are asked for are in it.
        sids = samr.SAMPR_PSID_ARRAY()
        sids["Count"] = len(members)
        for member in members:
            entry = samr.PSAMPR_SID_INFORMATION()
            entry["SidPointer"].fromCanonical(member["SidPointer"].formatCanonical())
            sids["Sids"].append(entry)
        found = samr.hSamrGetAliasMembership(service, domain, sids)["Membership"]["Element"]
        assert alias in [entry["Data"] for entry in found]
    samr.hSamrCloseHandle(service, of_user)
    try:
        samr.hSamrCloseHandle(service, of_user)
    except DCERPCException as error:
        assert "nca_s_fault_context_mismatch" in str(error), error
    else:
        raise AssertionError("a handle is closed twice")
    service.disconnect()


for dialect in (SMB2_DIALECT_21, SMB2_DIALECT_30, SMB2_DIALECT_311):
    files(dialect)
accounts(services())
