//! A running `plimsoll export` with a certificate, and a small client of RPC with TLS over rustls.

use nfs_wire::mount::{DirPath, MountReply, Status as MountStatus};
use nfs_wire::rpc::{
    Accepted, AuthFlavor, AuthStat, AuthSys, CallHeader, OpaqueAuth, RPC_VERSION, RecordMark, Rejected,
    ReplyBody, ReplyHeader,
};
use nfs_wire::v3::{
    CreateArgs, CreateFail, CreateHow, CreateOk, DirOpArgs, FileHandle, GetattrArgs, GetattrReply, PROGRAM,
    Procedure, ReadArgs, ReadFail, ReadOk, Reply, Sattr, StableHow, Status, VERSION, WriteArgs, WriteFail,
    WriteOk,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use xdr::{Decode, Encode, Reader};

/// Maximum wait of a test for an expected event.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A certificate and its key in PEM.
#[derive(Clone)]
pub struct Identity {
    pub certificate: String,
    key: String,
}

impl Identity {
    /// One that signs itself.
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
    }

    /// Writes it beside each other into a directory: the paths of the certificate and of the key.
    pub fn write(&self, dir: &Path) -> [PathBuf; 2] {
        let paths = [dir.join("server.pem"), dir.join("server.key")];
        for (path, text) in paths.iter().zip([&self.certificate, &self.key]) {
            fs::write(path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        }
        paths
    }
}

/// A running `plimsoll export` of one directory.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    pub identity: Identity,
    /// The identity of a client that the server trusts.
    pub client: Identity,
    pub dir: tempfile::TempDir,
    pub hint: String,
}

impl Server {
    pub fn start(options: &[&str]) -> Self {
        let (dir, identity, client) = (tempfile::tempdir().unwrap(), Identity::new(), Identity::new());
        let files = dir.path().join("files");
        fs::create_dir(&files).unwrap();
        let [certificate, key] = identity.write(dir.path());
        let client_ca = dir.path().join("clients.pem");
        fs::write(&client_ca, &client.certificate).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.arg("export").arg(&files).arg("--state").arg(dir.path().join("state"));
        command.args(["--squash", "none", "--no-portmap", "--mount-port", "0", "--listen", "127.0.0.1:0"]);
        command.arg("--tls-cert").arg(certificate).arg("--tls-key").arg(key);
        command.arg("--tls-client-ca").arg(client_ca).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut hint = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut hint).unwrap();
        let port = hint.split("port=").nth(1).and_then(|rest| rest.split(',').next()).unwrap();
        let address = format!("127.0.0.1:{port}").parse().unwrap();
        Self { child, address, identity, client, dir, hint }
    }

    /// A connection as it is.
    pub fn plain(&self) -> Rpc<TcpStream> {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Rpc { stream, xid: 1 }
    }

    /// A connection over which TLS was asked for.
    pub fn asked(&self) -> TcpStream {
        let mut plain = self.plain();
        assert_eq!(plain.start_tls(), Ok(b"STARTTLS".to_vec()));
        plain.stream
    }

    /// A connection with TLS, without a certificate of the client's.
    pub fn tls(&self) -> Rpc<Tls> {
        self.shake_hands(&Offer::new(&self.identity)).unwrap()
    }

    pub fn shake_hands(&self, offer: &Offer) -> std::io::Result<Rpc<Tls>> {
        let mut stream = offer.over(self.asked());
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        Ok(Rpc { stream, xid: 1 })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("files").join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Has ended already where it fell over.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub type Tls = StreamOwned<ClientConnection, TcpStream>;

/// A client's side of the handshake: version, protocols, own certificate, trusted certificate.
pub struct Offer {
    pub version: &'static SupportedProtocolVersion,
    pub protocols: Vec<Vec<u8>>,
    pub shows: Option<Identity>,
    pub believes: Identity,
}

impl Offer {
    pub fn new(believes: &Identity) -> Self {
        let believes = believes.clone();
        Self { version: &rustls::version::TLS13, protocols: vec![b"sunrpc".to_vec()], shows: None, believes }
    }

    /// The client's side on a connection; nothing is said yet.
    pub fn over(&self, socket: TcpStream) -> Tls {
        let certificate = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.believes.certificate)).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[self.version])
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.shows {
            None => builder.with_no_client_auth(),
            Some(shown) => {
                let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate(&shown.certificate)], key).unwrap()
            }
        };
        config.alpn_protocols.clone_from(&self.protocols);
        let name = ServerName::try_from("localhost").unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket)
    }
}

/// RPC over a stream.
pub struct Rpc<S> {
    pub stream: S,
    xid: u32,
}

/// Why a call has no results.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    Rejected(AuthStat),
    Closed,
}

/// A call as it goes over a stream.
pub fn record(xid: u32, procedure: (u32, u32, u32), args: &impl Encode) -> Vec<u8> {
    let cred = AuthSys::default().to_bytes();
    let cred = OpaqueAuth { flavor: AuthFlavor::SYS, body: &cred };
    framed(xid, procedure, cred, args)
}

fn framed(xid: u32, procedure: (u32, u32, u32), cred: OpaqueAuth<'_>, args: &impl Encode) -> Vec<u8> {
    let (prog, vers, proc) = procedure;
    let verf = OpaqueAuth::default();
    let header = CallHeader { xid, rpcvers: RPC_VERSION, prog, vers, proc, cred, verf };
    let body = [header.to_bytes(), args.to_bytes()].concat();
    let mark = RecordMark { last: true, length: u32::try_from(body.len()).unwrap() };
    [&mark.to_word().to_be_bytes()[..], &body].concat()
}

/// A NULL call that asks for TLS.
pub fn start_tls_record(xid: u32) -> Vec<u8> {
    framed(xid, (PROGRAM, VERSION, 0), OpaqueAuth { flavor: AuthFlavor::TLS, body: b"" }, &())
}

impl<S: Read + Write> Rpc<S> {
    pub fn send(&mut self, procedure: (u32, u32, u32), args: &impl Encode) {
        self.xid += 1;
        // A failed write shows up as a missing reply.
        _ = self.stream.write_all(&record(self.xid, procedure, args));
    }

    /// A reply without its mark; `None` at the end of the connection.
    pub fn receive(&mut self) -> Option<Vec<u8>> {
        let mut mark = [0; 4];
        self.stream.read_exact(&mut mark).ok()?;
        let mut body = vec![0; RecordMark::from_word(u32::from_be_bytes(mark)).length as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some(body)
    }

    pub fn call(&mut self, procedure: (u32, u32, u32), args: &impl Encode) -> Result<Vec<u8>, Refused> {
        self.send(procedure, args);
        let reply = self.receive().ok_or(Refused::Closed)?;
        let mut r = Reader::new(&reply);
        let header = ReplyHeader::decode(&mut r).unwrap();
        assert_eq!(header.xid, self.xid);
        match header.body {
            ReplyBody::Accepted(_, Accepted::Success) => Ok(r.rest().to_vec()),
            ReplyBody::Denied(Rejected::AuthError(stat)) => Err(Refused::Rejected(stat)),
            other => panic!("{other:?}"),
        }
    }

    /// The verifier of the reply to a call for TLS.
    pub fn start_tls(&mut self) -> Result<Vec<u8>, Refused> {
        self.xid += 1;
        _ = self.stream.write_all(&start_tls_record(self.xid));
        let reply = self.receive().ok_or(Refused::Closed)?;
        match ReplyHeader::decode(&mut Reader::new(&reply)).unwrap().body {
            ReplyBody::Accepted(OpaqueAuth { flavor: AuthFlavor::NONE, body }, Accepted::Success) => {
                Ok(body.to_vec())
            }
            ReplyBody::Denied(Rejected::AuthError(stat)) => Err(Refused::Rejected(stat)),
            other => panic!("{other:?}"),
        }
    }

    fn nfs(&mut self, procedure: Procedure, args: &impl Encode) -> Result<Vec<u8>, Refused> {
        self.call((PROGRAM, VERSION, procedure.0), args)
    }

    pub fn null(&mut self) -> Result<(), Refused> {
        self.nfs(Procedure::NULL, &()).map(drop)
    }

    pub fn mount(&mut self) -> Result<Result<Vec<u8>, MountStatus>, Refused> {
        self.mount_at("/files")
    }

    pub fn mount_at(&mut self, path: &str) -> Result<Result<Vec<u8>, MountStatus>, Refused> {
        let procedure = nfs_wire::mount::Procedure::MNT.0;
        let args = DirPath(path.as_bytes());
        let results = self.call((nfs_wire::mount::PROGRAM, nfs_wire::mount::VERSION, procedure), &args)?;
        Ok(match MountReply::decode(&mut Reader::new(&results)).unwrap() {
            MountReply::Ok(mounted) => Ok(mounted.fhandle.to_vec()),
            MountReply::Err(status) => Err(status),
        })
    }

    pub fn getattr(&mut self, file: &[u8]) -> Result<Status, Refused> {
        let results = self.nfs(Procedure::GETATTR, &GetattrArgs { object: FileHandle(file) })?;
        Ok(match GetattrReply::decode(&mut Reader::new(&results)).unwrap() {
            Reply::Ok(_) => Status::OK,
            Reply::Err(status, ()) => status,
        })
    }

    pub fn create(&mut self, dir: &[u8], name: &str) -> Vec<u8> {
        let args = create_args(dir, name);
        let results = self.nfs(Procedure::CREATE, &args).unwrap();
        match Reply::<CreateOk<'_>, CreateFail>::decode(&mut Reader::new(&results)).unwrap() {
            Reply::Ok(made) => made.obj.unwrap().0.to_vec(),
            Reply::Err(status, _) => panic!("{status:?}"),
        }
    }

    pub fn write(&mut self, file: &[u8], offset: u64, data: &[u8]) -> Result<Status, Refused> {
        let results = self.nfs(Procedure::WRITE, &write_args(file, offset, data))?;
        Ok(match Reply::<WriteOk, WriteFail>::decode(&mut Reader::new(&results)).unwrap() {
            Reply::Ok(written) => {
                assert_eq!(written.count as usize, data.len());
                Status::OK
            }
            Reply::Err(status, _) => status,
        })
    }

    pub fn read(&mut self, file: &[u8], offset: u64, count: u32) -> Vec<u8> {
        let results = self.nfs(Procedure::READ, &read_args(file, offset, count)).unwrap();
        data_of(&results)
    }
}

pub fn create_args<'a>(dir: &'a [u8], name: &'a str) -> CreateArgs<'a> {
    let place = DirOpArgs { dir: FileHandle(dir), name: name.as_bytes() };
    CreateArgs { place, how: CreateHow::Unchecked(Sattr::default()) }
}

pub fn write_args<'a>(file: &'a [u8], offset: u64, data: &'a [u8]) -> WriteArgs<'a> {
    let count = u32::try_from(data.len()).unwrap();
    WriteArgs { file: FileHandle(file), offset, count, stable: StableHow::FileSync, data }
}

pub fn read_args(file: &[u8], offset: u64, count: u32) -> ReadArgs<'_> {
    ReadArgs { file: FileHandle(file), offset, count }
}

/// The data of a READ's results.
pub fn data_of(results: &[u8]) -> Vec<u8> {
    match Reply::<ReadOk<'_>, ReadFail>::decode(&mut Reader::new(results)).unwrap() {
        Reply::Ok(ok) => ok.data.to_vec(),
        Reply::Err(status, _) => panic!("{status:?}"),
    }
}
