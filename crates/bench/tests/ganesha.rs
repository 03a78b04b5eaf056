//! The load generator against NFS-Ganesha (packages `nfs-ganesha` and `nfs-ganesha-vfs`), an independent server.

#[path = "../../vfs/tests/support/skip.rs"]
mod skip;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bench::load::{self, BlockOrder, Op, Plan};
use bench::{Target, demo};
use report::scenario::Stability;
use tempfile::TempDir;

/// A daemon must listen within this time.
const PATIENCE: Duration = Duration::from_secs(30);
const PORTMAP: u16 = 111;

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Ganesha {
    target: Target,
    daemon: Daemon,
    // Ganesha registers itself with it at its start; `None` where one was running already.
    _rpcbind: Option<Daemon>,
    _dir: TempDir,
}

fn start() -> Result<Ganesha, String> {
    let binary =
        ["/usr/bin/ganesha.nfsd", "/usr/sbin/ganesha.nfsd"].into_iter().find(|path| Path::new(path).exists());
    let binary = binary.ok_or("ganesha.nfsd is not installed")?;
    // Ganesha registers by the socket if there is one.
    let rpcbind = match listens(PORTMAP) || UnixStream::connect("/run/rpcbind.sock").is_ok() {
        true => None,
        false => {
            let daemon = spawn(Command::new("/usr/sbin/rpcbind").arg("-f"))?;
            Some(wait_for(daemon, PORTMAP)?)
        }
    };
    let dir = TempDir::new().unwrap();
    let [volume, config, log, pid] = ["volume", "conf", "log", "pid"].map(|name| dir.path().join(name));
    fs::create_dir(&volume).unwrap();
    let [port, mount_port] = free_ports();
    let text = format!(
        "NFS_CORE_PARAM {{ NFS_Port = {port}; MNT_Port = {mount_port}; NFS_Protocols = 3; Enable_NLM = false;
            Enable_RQUOTA = false; Bind_addr = 127.0.0.1; }}
        NFSV4 {{ Graceless = true; }}
        EXPORT {{ Export_Id = 7; Path = {volume}; Pseudo = /volume; Access_Type = RW; Squash = None; SecType = sys;
            Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }} }}
        LOG {{ Default_Log_Level = CRIT; }}",
        volume = volume.display()
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new(binary);
    let daemon = spawn(command.arg("-F").arg("-f").arg(&config).arg("-L").arg(&log).arg("-p").arg(&pid))?;
    let daemon = wait_for(wait_for(daemon, mount_port)?, port)
        .map_err(|wrong| format!("{wrong}\n{}", fs::read_to_string(&log).unwrap_or_default()))?;
    let mut target: Target = format!("nfs://127.0.0.1:{port}{}", volume.display()).parse().unwrap();
    target.mount_port = mount_port;
    Ok(Ganesha { target, daemon, _rpcbind: rpcbind, _dir: dir })
}

fn spawn(command: &mut Command) -> Result<Daemon, String> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.map(Daemon).map_err(|wrong| format!("cannot start {command:?}: {wrong}"))
}

fn wait_for(mut daemon: Daemon, port: u16) -> Result<Daemon, String> {
    let start = Instant::now();
    while !listens(port) {
        if let Some(status) = daemon.0.try_wait().unwrap() {
            return Err(format!("ended before it listened on {port}: {status}"));
        }
        if start.elapsed() > PATIENCE {
            return Err(format!("does not listen on {port} after {PATIENCE:?}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(daemon)
}

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

fn free_ports() -> [u16; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

#[test]
fn drives_ganesha() {
    let ganesha = match start() {
        Ok(ganesha) => ganesha,
        Err(why) if why.contains("is not installed") => {
            return skip::skip(&why);
        }
        Err(why) => panic!("{why}"),
    };
    let plan = |op| Plan {
        block: 8 << 10,
        size: 4 << 20,
        files: 2,
        entries: 1000,
        connections: 2,
        clients: 2,
        depth: 4,
        time: Duration::from_secs(1),
        warm_up: Duration::from_millis(100),
        verify: true,
        server_pid: Some(ganesha.daemon.0.id()),
        ..Plan::new(ganesha.target.clone(), op)
    };
    let mut plans = [
        Op::Read,
        Op::Write,
        Op::Mix,
        Op::Getattr,
        Op::Lookup,
        Op::Access,
        Op::Create,
        Op::Readdirplus,
        Op::Commit,
        Op::Null,
    ]
    .map(plan)
    .to_vec();
    plans.push(Plan { stability: Stability::FileSync, depth: 8, ..plan(Op::Write) });
    plans.push(Plan { block: 128 << 10, order: BlockOrder::Sequential, ..plan(Op::Mix) });
    plans.push(Plan { block: 128 << 10, verify: false, ..plan(Op::Read) });
    for plan in plans {
        let report = load::run(&plan, &mut |_| Ok(())).unwrap_or_else(|wrong| panic!("{plan:?}: {wrong}"));
        assert!(report.ops > 0 && report.errors.is_empty(), "{report}");
        assert!(report.server_cpu_us_per_op.is_some_and(|cpu| cpu > 0.0), "{report}");
        assert_eq!(report.read_back, plan.verify && plan.op.writes());
    }
    let rows = demo::demo(&ganesha.target, Duration::from_secs(3), &mut |_| {}).unwrap();
    assert!(rows.len() >= 9 && rows.iter().all(|row| row.ops_per_s > 0.0), "{rows:?}");
}
