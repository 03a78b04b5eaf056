//! Quotas by the commands, on real storage.

use crate::rig::Service;
use nfs_wire::portmap::{self, Mapping, PmapProcedure};
use nfs_wire::rpc::{AuthFlavor, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, ReplyHeader};
use nfs_wire::rquota::{self, ExtGetArgs, Quota, QuotaReply};
use serde_json::json;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};
use xdr::{Decode, Encode, Reader};

const WAIT_MAX: Duration = Duration::from_secs(300);

fn with_volume() -> Service {
    let service = Service::start();
    service.says(&["pool", "create", "p1", "--level", "gcnv/flex", "--size", "2TiB"]);
    service.says(&["volume", "create", "v1", "--pool", "p1", "--size", "1TiB"]);
    service
}

#[test]
fn quota_is_set_shown_and_deleted() {
    let service = with_volume();
    service.says(&["user", "create", "alice", "--uid", "1001", "--no-password"]);
    assert!(service.says(&["quota", "list", "v1"]).contains("No quotas"));
    let said = service.says(&["quota", "set", "v1", "--user", "alice", "--bytes", "50GiB", "--files", "1"]);
    assert_eq!(said, "Set the quota of user:1001 on v1: 50 GiB, 1 file.\n");
    let soft = ["--soft-bytes", "1GiB", "--grace", "2h"];
    service.says(&[&["quota", "set", "v1", "--group", "default", "--bytes", "2GiB"][..], &soft].concat());
    let listed = service.json(&["quota", "list", "v1"]);
    let rules = json!([
        { "target": "user:1001", "limit_bytes": 50_u64 << 30, "limit_files": 1 },
        {
            "target": "group:default", "limit_bytes": 2_u64 << 30, "soft_limit_bytes": 1 << 30,
            "grace_seconds": 7200
        },
    ]);
    assert_eq!(listed["quotas"], rules);
    let both = ["quota", "delete", "v1", "--user", "1", "--group", "2"];
    assert!(service.refuses(&both).contains("cannot be used with"));
    assert!(service.refuses(&["quota", "set", "v1", "--user", "1"]).contains("a rule without a limit"));
    assert!(service.refuses(&["quota", "list", "v2"]).contains("there is no volume v2"));
    let said = service.says(&["quota", "set", "v1", "--user", "S-1-22-1-1001", "--bytes", "60GiB"]);
    assert_eq!(said, "Set the quota of user:1001 on v1: 60 GiB.\n");
    let said = service.refuses(&["quota", "set", "v1", "--group", "S-1-22-1-1001", "--bytes", "1GiB"]);
    assert!(said.contains("the security identifier of a user or group"), "{said}");
    for bad in ["S-1-1-0", "S-1-5-21-1-2-3-1000", "S-1-x"] {
        assert!(service.refuses(&["quota", "delete", "v1", "--user", bad]).contains("a quota of"), "{bad}");
    }
    service.says(&["quota", "delete", "v1", "--group", "default"]);
    let said = service.says(&["quota", "delete", "v1", "--user", "1001"]);
    assert_eq!(said, "Deleted the quota of user:1001 on v1.\n");
}

#[test]
fn report_counts_the_files_and_check_finds_a_difference() {
    let service = with_volume();
    let volumes = service.data().join("volumes");
    let dir = fs::read_dir(volumes).unwrap().next().unwrap().unwrap().path();
    let add = |name: &str| fs::write(dir.join(name), [7; 5000]).unwrap();
    // Another program makes the files: the first report counts them, later ones do not see them.
    add("one");
    let uid = fs::metadata(dir.join("one")).unwrap().uid();
    let until = Instant::now() + WAIT_MAX;
    let report = loop {
        let report = service.json(&["quota", "report", "v1"]);
        if report["counting"] == json!(false) {
            break report;
        }
        assert!(Instant::now() < until, "the count does not end");
    };
    let owned = json!({ "kind": "user", "id": uid, "used_bytes": 8192, "used_files": 1, "derived": false });
    assert!(report["owners"].as_array().unwrap().contains(&owned), "{report}");
    assert_eq!(service.says(&["quota", "check", "v1"]), "No differences.\n");
    add("two");
    let check = service.json(&["quota", "check", "v1"]);
    let drift = json!({
        "kind": "user", "id": uid, "used_bytes": 8192, "used_files": 1,
        "recounted_bytes": 16_384, "recounted_files": 2
    });
    assert!(check["drifts"].as_array().unwrap().contains(&drift), "{check}");
}

/// Asks over UDP, as root.
fn ask(port: u16, procedure: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
    let ((prog, vers, proc), xid) = (procedure, 7);
    let sys = AuthSys::default().to_bytes();
    let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &sys };
    let header =
        CallHeader { xid, rpcvers: RPC_VERSION, prog, vers, proc, cred, verf: OpaqueAuth::default() };
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.send_to(&[header.to_bytes(), args.to_bytes()].concat(), (Ipv4Addr::LOCALHOST, port)).unwrap();
    let mut reply = [0; 2048];
    let length = socket.recv(&mut reply).unwrap();
    reply[..length].strip_prefix(&ReplyHeader::success(xid)).unwrap().to_vec()
}

#[test]
fn clients_ask_for_quotas_at_a_port_that_the_port_mapper_names() {
    let held = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let [portmap, quotas] = held.each_ref().map(|listener| listener.local_addr().unwrap().port());
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("plimsoll.toml");
    let text = format!("[nfs]\nportmap_port = {portmap}\n[api]\nlisten = \"127.0.0.1:0\"\n");
    fs::write(&config, text).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    drop(held);
    let options = ["--config", config.to_str().unwrap(), "--rquota-port", &quotas.to_string()];
    let service = Service::start_with(&options);
    service.says(&["pool", "create", "p1", "--level", "gcnv/flex", "--size", "2TiB"]);
    let access = ["--allow", "127.0.0.0/8", "--squash", "none"];
    service.says(&[&["volume", "create", "v1", "--pool", "p1", "--size", "1TiB"][..], &access].concat());
    service.says(&["quota", "set", "v1", "--user", "1001", "--bytes", "50GiB", "--files", "9"]);
    let getport = (portmap::PROGRAM, portmap::PMAP_VERSION, PmapProcedure::GETPORT.0);
    for (vers, prot) in [(1, portmap::IPPROTO_UDP), (2, portmap::IPPROTO_UDP), (2, portmap::IPPROTO_TCP)] {
        let wanted = Mapping { prog: rquota::PROGRAM, vers, prot, port: 0 };
        assert_eq!(ask(portmap, getport, &wanted), u32::from(quotas).to_bytes(), "version {vers}");
    }
    let getquota = (rquota::PROGRAM, rquota::VERSION_2, rquota::Procedure::GETQUOTA.0);
    let args = ExtGetArgs { path: b"/v1", kind: rquota::TYPE_USER, id: 1001 };
    let until = Instant::now() + WAIT_MAX;
    let reply = loop {
        let reply = ask(quotas, getquota, &args);
        match QuotaReply::decode(&mut Reader::new(&reply)).unwrap() {
            QuotaReply::Ok(quota) => break quota,
            refused => assert!(Instant::now() < until, "{refused:?}"),
        }
    };
    let block_hard = 50 << 20;
    assert_eq!(
        reply,
        Quota { block_bytes: 1024, active: true, block_hard, file_hard: 9, ..Quota::default() }
    );
}

#[test]
fn port_of_quotas_must_be_free() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let dir = tempfile::tempdir().unwrap();
    let mut command = crate::rig::plimsoll(Some(dir.path()));
    command.args(["serve", "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0", "--rquota-port", &port]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains(&format!("cannot listen on port {port} for remote quotas")), "{said}");
}
